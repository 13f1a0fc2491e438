"""Agreement of those who judge relevance, with intervals."""
