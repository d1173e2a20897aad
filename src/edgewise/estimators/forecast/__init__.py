"""What series on a graph will be: the settings, the run, the face in Python."""
