"""Mail: messages drawn at random, a live index, Tantivy over messages, a whole project."""
