"""Tests of harness.stages.compare."""
