"""Tests of harness.trust.commands."""
