"""``harness shadow``: a live comparison, watched, replayed, reported."""
