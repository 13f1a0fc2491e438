"""Query sets and judgements as other tools write and read them."""
