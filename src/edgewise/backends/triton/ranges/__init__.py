"""Attention over runs of keys."""
