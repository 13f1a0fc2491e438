"""Asking one question, all of them, and against the clock."""
