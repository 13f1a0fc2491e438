"""Tests of durable."""
