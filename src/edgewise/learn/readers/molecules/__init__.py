"""Molecules: read, featurized, stored once each, and simulated."""
