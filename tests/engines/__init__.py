"""The search stacks, held to their contract and taken apart."""
