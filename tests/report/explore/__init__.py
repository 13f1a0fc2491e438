"""Tests of harness.report.explore."""
