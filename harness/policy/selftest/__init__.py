"""Error rates of gates under known truth."""
