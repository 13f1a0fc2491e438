"""Tests of harness.tune.stage."""
