"""Tests of harness.clicks.credit."""
