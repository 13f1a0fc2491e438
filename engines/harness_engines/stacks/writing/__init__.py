"""Notes of a writer: planned FTS queries, then a local model over the best of what they find."""
