"""Lucene, as the arm of a search by words."""
