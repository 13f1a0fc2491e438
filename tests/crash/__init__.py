"""Commands that are killed, fail or are held up at each call by which they change files."""
