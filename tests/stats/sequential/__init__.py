"""Tests of sequential."""
