"""Many graphs, a row each."""
