"""Where moving bodies will be: the settings, the run, the face in Python."""
