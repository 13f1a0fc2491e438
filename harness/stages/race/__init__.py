"""The race: arms timed against each other, and what follows from the times."""
