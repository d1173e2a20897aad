"""The upper story: from files to trained, explained models. It stands on the operator, which knows nothing of it."""
