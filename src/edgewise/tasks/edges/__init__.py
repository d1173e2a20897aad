"""The task edges: a class or a number for each edge of one graph."""
