"""Tests of harness.stages.mail."""
