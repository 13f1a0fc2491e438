"""Gates: each module is one rule, and the folder is the registry.

Each module has a class of settings, the keys of the rule in a policy, and ``judge``. Shared code
is in ``harness.gates.base``, a package, so that it is never taken for a rule.
"""
