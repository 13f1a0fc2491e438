"""A migration in steps: ledger, moves, drills and commands."""
