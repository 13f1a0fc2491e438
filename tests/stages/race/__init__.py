"""Tests of harness.stages.race."""
