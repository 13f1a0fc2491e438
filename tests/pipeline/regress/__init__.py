"""Tests of harness.pipeline.regress."""
