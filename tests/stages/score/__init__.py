"""Tests of harness.stages.score."""
