"""Tests of harness.corpus.exchange."""
