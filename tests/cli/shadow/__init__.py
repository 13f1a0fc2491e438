"""Tests of harness.cli.shadow."""
