"""What every arm owes the harness; arms, manifests and settings."""
