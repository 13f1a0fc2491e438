"""Tests of harness.pipeline.imports."""
