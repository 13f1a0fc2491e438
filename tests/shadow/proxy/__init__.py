"""Tests of harness.shadow.proxy."""
