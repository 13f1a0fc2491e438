"""How often gates are wrong where the truth is known."""
