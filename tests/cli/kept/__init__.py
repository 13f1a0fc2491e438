"""Commands that keep a folder searchable."""
