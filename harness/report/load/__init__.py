"""``load.html``: a load test in tables and figures."""
