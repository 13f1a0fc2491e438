"""Tests of harness.policy.canary."""
