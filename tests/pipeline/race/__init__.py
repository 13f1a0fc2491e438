"""Tests of harness.pipeline.race."""
