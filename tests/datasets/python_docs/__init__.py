"""Tests of python_docs."""
