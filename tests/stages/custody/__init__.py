"""Tests of harness.stages.custody."""
