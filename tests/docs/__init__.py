"""Tests of the pages: their commands, links and keys, and what they say can be run."""
