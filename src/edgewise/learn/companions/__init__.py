"""Predictors that stand beside a network, and the stack that weighs them."""
