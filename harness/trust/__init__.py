"""Signatures, requests repeated, and results reproduced."""
