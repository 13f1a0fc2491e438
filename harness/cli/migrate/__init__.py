"""``harness migrate``: a migration, step by step."""
