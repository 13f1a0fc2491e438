"""Tests of harness.measures.columnar."""
