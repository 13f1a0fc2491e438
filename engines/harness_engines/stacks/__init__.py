"""Whole search stacks, from what a person typed to the hits shown."""
