"""Code search."""
