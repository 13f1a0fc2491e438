"""One comparison under way: pairs in, records out, the candidate in a process of its own."""
