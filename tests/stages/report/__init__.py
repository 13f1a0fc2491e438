"""Tests of harness.stages.report."""
