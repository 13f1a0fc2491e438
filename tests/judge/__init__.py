"""Judgements: the machines that give them, and the people."""
