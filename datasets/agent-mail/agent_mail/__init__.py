"""Message traffic that is made up, with queries and judgements."""
