"""Embedders, their cache and the vectors in a file."""
