"""Judgements: the pool to judge, and judging it."""
