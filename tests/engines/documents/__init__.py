"""Tests of engines.stacks.documents."""
