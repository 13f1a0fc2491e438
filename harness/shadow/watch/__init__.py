"""What a log says: summaries, divergences and alarms that may be looked at at any time."""
