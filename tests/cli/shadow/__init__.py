"""Tests of harness.shadow.commands."""
