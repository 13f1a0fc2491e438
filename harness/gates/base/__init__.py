"""Shared code of the rules; not a rule itself."""
