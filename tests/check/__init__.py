"""The contract's checks: each finds the engine that breaks its promise, and no other."""
