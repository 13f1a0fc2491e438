"""The moves of a migration: its ledger, switch, evidence and drill."""
