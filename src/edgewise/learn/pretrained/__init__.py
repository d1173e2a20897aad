"""Checkpoints of Hugging Face as our models, and back."""
