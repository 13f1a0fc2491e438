"""Rerankers: slower readings of the few best candidates."""
