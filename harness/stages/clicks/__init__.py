"""Logs of clicks, read as evidence."""
