"""Tests of harness.measures.ties."""
