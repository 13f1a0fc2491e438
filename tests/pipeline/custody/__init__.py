"""Tests of harness.pipeline.custody."""
