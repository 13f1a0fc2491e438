"""Tests of harness.report.page."""
