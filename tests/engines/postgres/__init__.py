"""Tests of the stack over PostgreSQL."""
