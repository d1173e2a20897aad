"""Classes or numbers of texts."""
