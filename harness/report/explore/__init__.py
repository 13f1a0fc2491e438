"""``explore.html``: any two arms, query by query."""
