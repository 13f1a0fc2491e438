"""Tests of the explorer in a browser."""
