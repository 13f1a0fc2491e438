"""Each whole stack by itself, and the lexical ones beside one another."""
