"""Text told on, token by token: the settings, the run, the face in Python."""
