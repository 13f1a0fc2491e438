"""Measures over arrays: judgements encoded once, rankings graded, all queries of a run at once."""
