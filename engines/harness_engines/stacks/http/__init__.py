"""Any search engine behind HTTP, described by its arm's TOML file: what is sent, what is read."""
