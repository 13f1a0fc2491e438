"""Tests of the agreement of two runs."""
