"""Tests of harness.corpus.querylog."""
