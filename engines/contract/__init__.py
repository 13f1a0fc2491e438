"""What every stack shares with the harness: manifests, arms, settings."""
