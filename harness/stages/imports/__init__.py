"""Collections and runs of others, taken over."""
