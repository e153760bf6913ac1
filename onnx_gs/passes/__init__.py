"""Rewrites of models: one file, one pass."""
