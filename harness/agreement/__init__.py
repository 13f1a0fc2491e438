"""How alike two runs are; needs no judgements."""
