"""The next token of a text."""
