"""Tests of the client of a remote message search."""
