"""Tests of harness.pipeline.experiments."""
