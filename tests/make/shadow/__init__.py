"""Live comparisons: records, a log, servers that answer, limits that tests can wait for."""
