"""Stacks that run elsewhere: each module is one, by the protocol that it speaks."""
