"""A policy planned and registered, before its results are seen."""
