"""Molecules: read, featurized, kept once each, and simulated."""
