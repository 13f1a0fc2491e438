"""Commands that check, sign and reproduce evidence."""
