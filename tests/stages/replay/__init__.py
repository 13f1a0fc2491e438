"""Tests of harness.stages.replay."""
