"""Tests of harness.stages.imports."""
