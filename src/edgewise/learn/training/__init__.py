"""Training: a model and its loaders in, weights and a run folder out.

Only `task`, `fit` and the files they stand on import Lightning; the run folder, the metrics, the intervals and the
baselines do without it.
"""
