"""The search stacks under test; of the harness they know ``harness.core`` alone."""
