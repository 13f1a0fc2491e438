"""Runs and judgements to the table of a paper: means, tests between systems, marks."""
