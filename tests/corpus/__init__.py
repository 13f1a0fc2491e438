"""Tests of harness.corpus."""
