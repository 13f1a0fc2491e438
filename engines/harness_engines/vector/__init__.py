"""Building blocks of vector search, one idea a module."""
