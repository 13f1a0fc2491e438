"""Tests of harness.report.trends."""
