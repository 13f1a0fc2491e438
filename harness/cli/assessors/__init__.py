"""Commands for judgements by people and machines."""
