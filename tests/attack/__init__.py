"""Attacks that take minutes: `make attack`, or `python -m attack files server` in the folder of the tests."""
