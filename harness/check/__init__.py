"""Checks of an engine's contract."""
