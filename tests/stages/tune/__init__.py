"""Tests of harness.stages.tune."""
