"""Tests of harness.stages."""
