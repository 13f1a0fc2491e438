"""Tests of harness.shadow.servers."""
