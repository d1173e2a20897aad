"""Tokens to their tags: the settings, the run, the face in Python."""
