"""Tests of harness.policy.plan."""
