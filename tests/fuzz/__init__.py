"""Readers fed with what nobody would write: what was found is kept in ``finds`` and read again."""
