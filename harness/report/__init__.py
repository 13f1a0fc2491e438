"""Decisions as pages that people read and files that machines read; rounding lives here."""
