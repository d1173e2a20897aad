"""Texts: tokens, tables, tags, pairs of languages."""
