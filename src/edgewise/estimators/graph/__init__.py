"""Many graphs to a class or a number each: the settings, the run, the face in Python."""
