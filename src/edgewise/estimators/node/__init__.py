"""Nodes of a graph to their classes and numbers: the settings, the run, the face in Python."""
