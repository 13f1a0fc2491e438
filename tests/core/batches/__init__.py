"""Tests of work that many processes may share."""
