"""Tests of harness.load.page."""
