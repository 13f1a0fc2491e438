"""A policy planned, before its results are seen."""
