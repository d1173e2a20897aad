"""Predictors that stand beside a network, and the stack that weighs them."""

NETWORK = "network"
"""What the network is called beside the names of its companions."""
FOREST, GAUSSIAN_PROCESS, WORD_COUNTS = "forest", "gaussian-process", "word-counts"
"""What companions are called in settings and files."""
LABELS = {GAUSSIAN_PROCESS: "Gaussian process", FOREST: "random forest", WORD_COUNTS: "word counts"}
"""What companions are called in texts, where that is not their name."""
