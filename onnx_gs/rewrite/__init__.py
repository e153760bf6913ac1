"""Matching and replacing."""
