"""Policies: TOML in, decisions out."""
