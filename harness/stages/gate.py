"""Stage ``gate``: judge every step of the policy, and write the decision with its evidence."""

from __future__ import annotations

import json
from datetime import UTC, datetime

from harness.core.errors import BadFile, EvidenceError
from harness.core.files import write_json, write_text
from harness.core.gate import StepDecision
from harness.policy.decide import decide
from harness.report.decision_json import from_json, to_json, without_times
from harness.report.junit import to_junit
from harness.stages.assemble import Subject, assemble, evidence_of
from harness.stages.layout import Layout

DETERMINISTIC = ("dataset", "policy", "steps")


def gate(layout: Layout, subject: Subject) -> tuple[StepDecision, ...]:
    """Write ``decision.json`` and ``junit.xml``, and what of them does not rest on a clock.

    Raises:
        EvidenceError: there is no policy, or evidence is missing, stale or about other arms.
    """
    if subject.policy is None:
        raise EvidenceError("there is nothing to judge by; name a policy")
    evidence = evidence_of(layout, subject)
    now = datetime.now(UTC)
    decisions = decide(subject.policy, evidence, now=now)
    report = assemble(layout, subject, evidence, decisions, now)
    written = to_json([report])
    steady = without_times(written)["datasets"][0]
    write_json(layout.decision, written)
    write_text(layout.junit, to_junit([report]))
    write_json(layout.findings, {key: steady[key] for key in DETERMINISTIC})
    return decisions


def read_decision(layout: Layout) -> tuple[tuple[StepDecision, ...], datetime]:
    """Read what was decided, and when.

    Raises:
        BadFile: there is no decision, or it is not one that ``gate`` wrote.
    """
    path = layout.decision
    cure = f"Run: harness gate --dataset {layout.root.name}"
    try:
        written = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise BadFile(path, "nothing was decided yet", cure) from None
    except ValueError as exc:
        raise BadFile(path, f"not JSON ({exc})", cure) from exc
    decisions = tuple(found.decision for found in from_json(written, path))
    decided_at = written["datasets"][0]["provenance"]["decided_at"]
    return decisions, datetime.fromisoformat(decided_at)
