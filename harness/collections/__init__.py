"""Collections that the harness makes itself, from a seed or from installed packages."""
