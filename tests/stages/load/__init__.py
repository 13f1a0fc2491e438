"""Tests of harness.stages.load."""
