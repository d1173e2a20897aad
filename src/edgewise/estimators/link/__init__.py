"""Which nodes of a graph are linked: the settings, the run, the face in Python."""
