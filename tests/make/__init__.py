"""Runs, scores, records, damaged files and decisions, made or read back for tests."""
