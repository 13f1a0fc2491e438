"""PostgreSQL: words by tsvector, vectors by pgvector, both fused by reciprocal rank in SQL."""
