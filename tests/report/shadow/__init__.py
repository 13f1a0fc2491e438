"""Tests of harness.report.shadow."""
