"""From a raw file to batches of graphs: molecules, tables, splits, scales and a simulated table."""
