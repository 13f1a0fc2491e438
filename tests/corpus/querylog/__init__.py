"""Tests of harness.logs.querylog."""
