"""Tests of markup."""
