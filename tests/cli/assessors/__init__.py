"""Tests of assessors."""
