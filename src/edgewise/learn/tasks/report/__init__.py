"""The page about a finished run."""
