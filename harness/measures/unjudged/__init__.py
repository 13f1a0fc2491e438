"""Unjudged documents: the range of values that they leave open."""
