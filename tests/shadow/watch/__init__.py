"""Tests of harness.shadow.watch."""
