"""Tests of what starts the harness in containers."""
