"""Orders, scores and fusion, one idea a module."""
