"""How what was recorded is asked of functions that are called otherwise today."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from harness.core.evidence import Evidence
from harness.gates.base.rules import GateSettings, missing


def with_evidence(
    judge: Callable[..., Any], gate: str, settings: GateSettings, evidence: Evidence, rules: Any
) -> Any:
    """Judge as ``harness.policy.model.Gate`` does, which notices first what is missing."""
    return missing(gate, settings, evidence) or judge(gate, settings, evidence, rules)
