"""Tests of harness.measures.unjudged."""
