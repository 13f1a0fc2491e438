"""One module a stage; a stage reads files, calls one function, writes files."""
