"""A graph in files that are mapped into memory: built by external sorting, read in parts."""
