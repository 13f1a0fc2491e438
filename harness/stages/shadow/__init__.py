"""Commands of the live comparison: run, replay, watch, report."""
