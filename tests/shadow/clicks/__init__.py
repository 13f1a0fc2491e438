"""Tests of harness.shadow.clicks."""
