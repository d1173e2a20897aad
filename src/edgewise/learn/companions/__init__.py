"""Predictors that stand beside a network, and the stack that weighs them."""

NETWORK = "network"
"""What the network is called beside the names of its companions."""
LABELS = {"gaussian-process": "Gaussian process", "forest": "random forest"}
"""What companions are called in texts, where that is not their name."""
