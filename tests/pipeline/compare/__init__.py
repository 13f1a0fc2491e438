"""Tests of harness.pipeline.compare."""
