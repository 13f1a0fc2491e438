"""Tests of harness.tables."""
