"""Tests of harness.cli.migrate."""
