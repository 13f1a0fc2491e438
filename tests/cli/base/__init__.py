"""Tests of harness.cli.base."""
