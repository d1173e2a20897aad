"""Batches: what a loader makes and a network takes, where the input is not a graph; graphs have `Batch`."""
