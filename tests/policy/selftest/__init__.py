"""Tests of harness.policy.selftest."""
