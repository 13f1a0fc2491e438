"""Tests of harness.shadow.live."""
