"""Sentences to their translations: the settings, the run, the face in Python."""
