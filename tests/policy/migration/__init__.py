"""Tests of harness.policy.migration."""
