"""Tests of harness.stages.shadow."""
