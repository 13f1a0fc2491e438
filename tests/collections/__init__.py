"""Tests of harness.collections."""
