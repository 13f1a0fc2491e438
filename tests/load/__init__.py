"""Tests of harness.pipeline.load."""
