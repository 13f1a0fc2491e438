"""Tests of harness.stages.queries."""
