"""Plain text in, ranked documents out; one stack a module, each with ``engine``."""
