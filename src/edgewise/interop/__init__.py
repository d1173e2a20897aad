"""Other dialects in, ours out; and back."""
