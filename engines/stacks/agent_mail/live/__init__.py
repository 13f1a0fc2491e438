"""Indexes that follow the message table while it changes."""
