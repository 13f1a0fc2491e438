"""Stage ``replay``: one arm, every query, twice; and whose answers those are."""
