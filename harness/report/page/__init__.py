"""``index.html``: the page from which a release manager decides."""
