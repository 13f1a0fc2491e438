"""Orders and fusion against sums by hand."""
