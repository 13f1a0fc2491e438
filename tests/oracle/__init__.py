"""The oracle of moves: golden runs, and cassettes of functions."""
