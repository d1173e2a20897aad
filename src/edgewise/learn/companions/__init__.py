"""Predictors that stand beside a network, and the stack that weighs them."""

NETWORK = "network"
"""What the network is called beside the names of its companions."""
FOREST, GAUSSIAN_PROCESS = "forest", "gaussian-process"
"""What companions are called in settings and files."""
LABELS = {GAUSSIAN_PROCESS: "Gaussian process", FOREST: "random forest"}
"""What companions are called in texts, where that is not their name."""
