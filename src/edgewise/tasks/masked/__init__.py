"""Hidden tokens of texts."""
