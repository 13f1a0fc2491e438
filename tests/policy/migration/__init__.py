"""Tests of harness.migrate.standing."""
