"""What the rules share; no rule is in here."""
