"""Code search (specification 003): code, prose and records in one index, explained hit by hit."""
