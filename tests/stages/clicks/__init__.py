"""Tests of harness.stages.clicks."""
