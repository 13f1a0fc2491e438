"""Words of code search: what is wanted of an engine, in SQLite and in Tantivy."""
