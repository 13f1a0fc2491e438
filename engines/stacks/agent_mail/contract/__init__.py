"""The query, filter and explain contract of message search (specification 000, sections 1 to 9)."""
