"""Query sets from logs: counted, sampled by strata, and compared with a later log."""
