"""Tests of harness.stages.plan."""
