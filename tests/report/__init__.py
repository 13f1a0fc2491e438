"""Tests of what people and machines read in the end."""
