"""From a policy file to decisions."""
