"""Tests of harness.report.decision."""
