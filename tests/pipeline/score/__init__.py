"""Tests of harness.pipeline.score."""
