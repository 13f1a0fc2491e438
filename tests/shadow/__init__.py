"""Tests of the live comparison."""
