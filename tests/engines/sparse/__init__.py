"""Tests of engines.sparse."""
