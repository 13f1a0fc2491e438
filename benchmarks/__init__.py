"""Measurements whose numbers stand in docs/, each a command of its own."""
