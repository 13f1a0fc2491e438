"""Where evaluation libraries disagree, and the rule we pin; each test is named by its number."""
