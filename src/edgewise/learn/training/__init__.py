"""Training: fits a model to the batches of its loaders, and writes weights, scores and logs into a run folder."""
