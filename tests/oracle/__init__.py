"""Golden runs, the oracle of moves."""
