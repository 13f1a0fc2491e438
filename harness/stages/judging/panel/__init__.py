"""Several assessors judge one pool: each has a part, and some pairs have two."""
