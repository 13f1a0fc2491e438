"""Tests of harness_engines.stacks.documents."""
