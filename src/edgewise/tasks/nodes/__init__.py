"""The nodes of one graph."""
