"""Tests of harness.pipeline.shadow."""
