"""Judgements by people and machines: pools, labels, panels and commands."""
