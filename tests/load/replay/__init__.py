"""Tests of harness.replay.load."""
