"""Tests of harness.shadow.log."""
