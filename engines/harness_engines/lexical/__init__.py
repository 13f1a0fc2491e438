"""Building blocks of lexical search, one idea a module."""
