"""What the harness asks of every engine, as checks that name what they saw."""
