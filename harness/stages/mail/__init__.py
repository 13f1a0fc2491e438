"""Message search over an arm's index, alone or with a shadow."""
