"""The nouns of the field; imports nothing else of ours."""
