"""Quality of a run against judgements."""
