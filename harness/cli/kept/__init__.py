"""Commands that keep a folder searchable: notes, code and docs, each with index, ask and serve."""
