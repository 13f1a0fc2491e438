"""Tests of harness.stages.experiments."""
