"""Messages in Tantivy: the engine, its index and schema, queries, filters and orders."""
