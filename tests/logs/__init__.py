"""Tests of harness.logs.stage."""
