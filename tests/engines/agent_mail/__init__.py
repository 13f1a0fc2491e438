"""Tests of the message stack."""
