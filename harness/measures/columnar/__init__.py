"""Measures over arrays: judgements coded once, rankings graded, all queries of a run at once."""
