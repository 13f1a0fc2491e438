"""Tests of harness.stages.regress."""
