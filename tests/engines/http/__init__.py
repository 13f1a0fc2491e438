"""Tests of the stack that speaks HTTP."""
