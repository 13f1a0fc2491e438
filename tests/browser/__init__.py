"""What people see, opened in a Chromium without a network."""
