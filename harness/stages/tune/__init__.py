"""Command ``tune``: search an arm's settings, on judgements that no decision may then rest on."""
