"""Gates: the folder is the registry, and a rule is found by its name.

A module has one class of settings, the keys of the rule in a policy, and ``judge``, and the rule is
named after it. Or it has several: each class names its ``rule``, and ``judge_RULE`` is beside it.
Shared code is in ``harness.gates.base``, a package, so that it is never taken for a rule.
"""
