"""Tests of harness.pipeline.replay."""
