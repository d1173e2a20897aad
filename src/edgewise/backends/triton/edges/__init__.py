"""Attention over lists of edges."""
