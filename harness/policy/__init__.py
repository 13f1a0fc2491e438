"""What a migration is held to: TOML in, decisions out."""
