"""Tests of harness.corpus.python_docs."""
