"""Series on a graph."""
