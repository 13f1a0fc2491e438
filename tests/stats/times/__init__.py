"""Tests of times."""
