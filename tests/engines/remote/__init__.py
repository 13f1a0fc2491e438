"""Tests of the stacks that run elsewhere."""
