"""Tests of harness.pipeline.mail."""
