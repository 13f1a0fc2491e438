"""Open-loop load: arrivals, workers, trials, and the highest rate within a budget."""
