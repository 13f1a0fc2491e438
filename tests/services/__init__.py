"""Tests of ``harness compare``."""
