"""A PASS of a gate that the selftest convicts becomes INCONCLUSIVE (method, section 8)."""

from __future__ import annotations

from dataclasses import replace

from harness.core.gate import Cause, Finding, Verdict
from harness.core.scores import Estimate
from harness.policy.selftest.operating import Selftest

REMEDY = (
    "judge more queries (harness plan says how many this gate needs), or correct the rule;"
    " then run harness selftest again"
)


def believed(finding: Finding, step: str, selftest: Selftest | None) -> Finding:
    """Give ``finding``, INCONCLUSIVE where it is a PASS and the selftest convicts its gate.

    A gate is convicted where its measured false-promotion rate has a lower end above the level,
    or where an engine that knows nothing passed it, or the control failed it. A FAIL stands.
    """
    if selftest is None or finding.verdict is not Verdict.PASS:
        return finding
    why = _wrong(finding.gate, step, selftest)
    if not why:
        return finding
    return replace(
        finding,
        verdict=Verdict.INCONCLUSIVE,
        cause=Cause.SELFTEST,
        reason=f"{finding.reason}; but the selftest convicts this gate: {why}",
        remedy=REMEDY,
    )


def _wrong(gate: str, step: str, selftest: Selftest) -> str:
    """Say what the selftest has against a gate; empty where nothing."""
    tried = selftest.of(step, gate)
    if tried and (worst := tried.convicted(selftest.level)):
        return (
            f"it passed in {rate(worst.promoted)} of {worst.promoted.n} trials whose loss was its"
            f" bound ({worst.pattern}); {100 * selftest.level:g} % is allowed"
        )
    for null in selftest.nulls:
        if null.step == step and gate in null.verdicts and not null.as_it_should:
            said = ", ".join(f"{name}: {verdict}" for name, verdict in null.verdicts.items())
            return f"with {null.model} as the candidate the gates said {said}"
    return ""


def rate(estimate: Estimate) -> str:
    """Write a share of trials with its interval."""
    return f"{100 * estimate.value:.1f} % [{100 * estimate.low:.1f} %, {100 * estimate.high:.1f} %]"
