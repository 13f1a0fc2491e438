"""Query sets from logs of searches."""
