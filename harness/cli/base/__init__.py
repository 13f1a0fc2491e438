"""What commands stand on: the application, exit codes, places, the project."""
