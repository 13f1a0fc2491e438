"""Gates, one rule a module; the folder is the registry.

Each module has ``Settings``, what a policy must write to use the rule, and ``judge``. What rules
share lies in ``harness.gates.base``; it is a package, so that it is never taken for a rule.
"""
