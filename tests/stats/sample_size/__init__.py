"""Tests of sample_size."""
