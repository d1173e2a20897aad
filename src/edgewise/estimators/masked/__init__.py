"""Hidden tokens told: the settings, the run, the face in Python."""
