"""Messages in SQLite: the store, FTS5, LIKE, and the filters as SQL."""
