"""How many queries a decision needs."""
