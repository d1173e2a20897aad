"""Attention within small graphs side by side."""
