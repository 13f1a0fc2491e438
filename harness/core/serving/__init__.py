"""HTTP servers of the program: what their clients may hold."""
