"""Models stacked from the layers."""
