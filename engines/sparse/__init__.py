"""Sparse vectors: a weight for each term of a model's vocabulary."""
