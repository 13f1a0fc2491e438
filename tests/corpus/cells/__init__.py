"""Tests of harness.corpus.cells."""
