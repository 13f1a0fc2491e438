"""The nouns, and the invariants that they keep."""
