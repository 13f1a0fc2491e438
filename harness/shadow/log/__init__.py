"""The log of a live comparison: its records, its streams, and their writer."""
