"""Tests of harness.stats.raters."""
