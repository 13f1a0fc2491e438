"""A migration: its events, the state that they add up to, and what it asks for today."""
