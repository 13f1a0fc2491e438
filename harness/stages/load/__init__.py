"""The load test: its trials, its files, and what follows from them."""
