"""Percentiles of times, with intervals, and what distorts them."""
