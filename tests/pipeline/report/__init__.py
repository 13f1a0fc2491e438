"""Tests of harness.pipeline.report."""
