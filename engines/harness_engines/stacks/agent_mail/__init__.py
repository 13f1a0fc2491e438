"""Message search: the stack of specifications 000 and 002."""
