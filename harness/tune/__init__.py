"""Settings of an engine chosen on judged queries."""
