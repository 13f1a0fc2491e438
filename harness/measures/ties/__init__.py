"""Equal scores: the effect of their order on a measure."""
