"""Tests of harness.collections.python_docs."""
