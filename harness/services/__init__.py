"""Two search services over HTTP compared on the queries of a log, without judgements."""
