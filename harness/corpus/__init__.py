"""Documents, queries, judgements and runs, and the files they live in."""
