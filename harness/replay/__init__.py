"""Asking open engines questions, and keeping what they said and how long it took."""
