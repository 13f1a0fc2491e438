"""Equal scores: what another order of them could have done to a measure."""
