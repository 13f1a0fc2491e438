"""Tests of harness.report.load."""
