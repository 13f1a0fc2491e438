"""The log of a data set's experiments: what goes in, and what it notes."""
