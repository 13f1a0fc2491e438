"""Tests of engines.code.reading."""
