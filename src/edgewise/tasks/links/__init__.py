"""Which nodes of a graph are linked."""
