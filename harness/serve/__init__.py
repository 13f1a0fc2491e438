"""The pages on a local server that watches for new runs, and the form for judging a pool."""
