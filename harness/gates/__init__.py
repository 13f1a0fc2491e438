"""Gates: one rule a module, each with its ``Settings`` and ``judge``."""
