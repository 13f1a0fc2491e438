"""A shadow log as a page, as words and as JSON."""
