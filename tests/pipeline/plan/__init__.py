"""Tests of harness.pipeline.plan."""
