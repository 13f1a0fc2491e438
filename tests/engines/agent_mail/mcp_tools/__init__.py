"""Tests of the tools of message search."""
