"""Statistics that are valid at every look, while evidence is added."""
