"""Measure load, save, copy, toposort, cleanup and fold against other tools: ``python -m benchmarks``."""
