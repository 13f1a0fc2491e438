"""Every arm against itself as it was in an earlier release."""
