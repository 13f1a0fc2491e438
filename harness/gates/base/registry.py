"""The registry of rules: the modules of ``harness.gates``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

import harness.gates
from harness.core.errors import UnknownName
from harness.core.evidence import Evidence
from harness.core.gate import Finding
from harness.gates.base.rules import GateSettings, Rules

Judge = Callable[[str, Any, Evidence, Rules], Finding]
"""Takes the gate's name, the rule's own ``Settings``, the evidence and the rules."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One module of ``harness.gates``."""

    name: str
    settings: type[GateSettings]
    judge: Judge


def names() -> tuple[str, ...]:
    """Name every rule, in alphabetical order."""
    found = iter_modules(harness.gates.__path__)
    return tuple(sorted(module.name for module in found if not module.ispkg))


def load(name: str) -> Rule:
    """Import the rule called ``name``.

    Raises:
        UnknownName: the module is missing.
    """
    known = names()
    if name not in known:
        raise UnknownName("rule", name, known)
    module = import_module(f"harness.gates.{name}")
    return Rule(name, module.Settings, module.judge)
