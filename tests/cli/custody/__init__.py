"""Tests of harness.cli.custody."""
