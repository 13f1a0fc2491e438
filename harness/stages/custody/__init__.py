"""How evidence is kept: receipts, proofs, signatures, and everything checked or derived again."""
