"""Policies of migrations: TOML in, decisions out."""
