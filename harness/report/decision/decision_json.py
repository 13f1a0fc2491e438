"""``decision.json``: the decision for machines, versioned, checked against a schema, read back.

Values that depend on a clock or a machine are separate: findings with ``timed``, ``latency``, the
``record`` of earlier experiments, and the ``MACHINE_FACTS`` of ``provenance``. ``without_times``
leaves what must be equal in two runs of the same inputs.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from harness.core.clusters import BY_TEXT, Dependence
from harness.core.evidence import Agreement, Evidence
from harness.core.gate import Finding, Outcome, StepDecision, Verdict
from harness.core.printable import printable
from harness.core.scores import Estimate
from harness.report.decision.trust_json import as_json
from harness.report.inputs import Latency, ReportInput
from harness.report.page import custody
from harness.report.page.latency_tables import is_verified, trusted_ratios
from harness.report.rounding import for_json

SCHEMA_VERSION = "1.5"
MACHINE_FACTS = ("machine", "decided_at", "expires_at", "replayed_at")

Json = dict[str, Any]


def together(verdicts: Iterable[Verdict]) -> Verdict:
    """FAIL if any, else INCONCLUSIVE if any or none at all, else PASS."""
    said = set(verdicts)
    for verdict in (Verdict.FAIL, Verdict.INCONCLUSIVE):
        if verdict in said:
            return verdict
    return Verdict.PASS if said else Verdict.INCONCLUSIVE


def _estimate(estimate: Estimate | None) -> Json | None:
    if estimate is None:
        return None
    numbers = {"value": estimate.value, "low": estimate.low, "high": estimate.high}
    return {name: for_json(number) for name, number in numbers.items()} | {"n": estimate.n}


def _dependence(dependence: Dependence) -> Json:
    return {
        "queries": dependence.queries,
        "clusters": dependence.clusters,
        "largest": dependence.largest,
        "design_effect": for_json(dependence.design_effect),
        "effective": for_json(dependence.effective),
    }


def _estimates(found: Mapping[str, Estimate]) -> Json:
    return {name: _estimate(estimate) for name, estimate in found.items()}


def _finding(finding: Finding) -> Json:
    return {
        "gate": finding.gate,
        "rule": finding.rule,
        "verdict": finding.verdict.value,
        "cause": finding.cause.value,
        "reason": printable(finding.reason),
        "bound": printable(finding.bound),
        "estimate": _estimate(finding.estimate),
        "limit": for_json(finding.limit),
        "unit": finding.unit,
        "settle": printable(finding.remedy),
        "p_value": for_json(finding.p_value),
        "timed": finding.timed,
    }


def _step(step_decision: StepDecision) -> Json:
    untimed = together(f.verdict for f in step_decision.findings if not f.timed)
    return {
        "step": step_decision.step,
        "control": step_decision.control,
        "candidate": step_decision.candidate,
        "taken": step_decision.taken,
        "verdict": step_decision.verdict.value,
        "untimed_verdict": untimed.value,
        "outcome": step_decision.outcome.value,
        "waits_for": step_decision.blocked_by,
        "accepted_by": step_decision.accepted_by,
        "blocking": [finding.gate for finding in step_decision.blocking],
        "findings": [_finding(finding) for finding in step_decision.findings],
    }


def _agreement(agreement: Agreement) -> Json:
    scores = {
        name: {
            "mean": for_json(scores.mean),
            "n": len(scores.query_ids),
            "undefined": {why: len(ids) for why, ids in sorted(scores.undefined.items())},
        }
        for name, scores in agreement.scores.items()
    }
    return {"classes": dict(sorted(Counter(agreement.classes).items())), "scores": scores}


def _comparison(report: ReportInput, name: str, found: Evidence) -> Json:
    return {
        "name": name,
        "control": found.control.arm,
        "candidate": found.candidate.arm,
        "differences": _estimates(report.differences.get(name, {})),
        "dependence": {
            measure: _dependence(one) for measure, one in report.dependence.get(name, {}).items()
        },
        "agreement": _agreement(found.agreement),
        "noise": _agreement(found.noise),
    }


def _latency(report: ReportInput, latency: Latency | None) -> Json | None:
    if latency is None:
        return None
    shown = {arm: row for arm, row in latency.percentiles.items() if is_verified(latency, arm)}
    return {
        "timed": True,
        "unit": "ns",
        "machine": latency.race.machine,
        "raced_at": latency.race.raced_at,
        "verified": dict(latency.race.verified),
        "percentiles": {arm: _estimates(row) for arm, row in shown.items()},
        "ratios": {name: _estimates(row) for name, row in trusted_ratios(report, latency).items()},
        "aa": {arm: _estimates(row) for arm, row in latency.aa.items()},
        "repeats": _estimates(latency.repeats),
        "seen": _estimates(latency.seen),
        "processes": max(map(len, latency.race.elapsed_ns.values()), default=0),
        "reference_ns": float(np.median(latency.race.reference_ns)),
        "stolen": {arm: one.shares for arm, one in latency.race.stolen.items()},
    }


def _provenance(report: ReportInput) -> Json:
    of = report.provenance
    digests = {
        "corpus": of.corpus_sha256,
        "queries": of.queries_sha256,
        "qrels": of.qrels_sha256,
    }
    counts = {"documents": of.documents, "queries": of.queries, "judgements": of.judgements}
    arms = {
        arm: {**asdict(found), "fingerprint": found.fingerprint}
        for arm, found in of.manifests.items()
    }
    return {
        "licence": of.licence,
        "source": of.source,
        "sha256": digests,
        "counts": counts,
        "fields": list(of.fields),
        "arms": arms,
        "packages": dict(of.packages),
        "python": of.python,
        "code_version": of.code_version,
        "seed": of.seed,
        "settings": dict(of.settings),
        "commands": list(of.commands),
        "machine": of.machine,
        "decided_at": of.decided_at,
        "expires_at": of.expires_at,
        "replayed_at": dict(of.replayed_at),
    }


def _dataset(report: ReportInput) -> Json:
    slices = {
        name: {arm: _estimates(row) for arm, row in arms.items()}
        for name, arms in report.slice_means.items()
    }
    return {
        "dataset": report.provenance.dataset,
        "policy": asdict(report.policy) if report.policy else None,
        "clusters": {
            "how": report.trust.policy.clusters if report.trust else BY_TEXT,
            "reason": printable(report.trust.policy.premises.needs or "") if report.trust else "",
            "parted": max((len(found.parted) for found in report.evidence.values()), default=0),
        },
        "steps": [_step(decision) for decision in report.decisions],
        "comparisons": [_comparison(report, n, found) for n, found in report.evidence.items()],
        "quality": {
            "measure": report.measure,
            "means": {arm: _estimates(row) for arm, row in report.means.items()},
            "slices": slices,
        },
        "latency": _latency(report, report.latency),
        "trust": as_json(report.trust),
        "evidence": custody.evidence_json(report.custody) if report.custody else None,
        "record": custody.record_json(report.custody) if report.custody else None,
        "provenance": _provenance(report),
    }


def to_json(reports: Sequence[ReportInput]) -> Json:
    """Give everything that was decided, as values that JSON can hold.

    The summary's verdict is over the steps of all datasets, None where nothing was to decide.
    Numbers keep ten significant digits; a value that is not finite (an open end) becomes None. Text
    is made printable.
    """
    decisions = [decision for report in reports for decision in report.decisions]
    outcomes = Counter(decision.outcome for decision in decisions)
    overall = together(d.verdict for d in decisions).value if decisions else None
    return {
        "schema_version": SCHEMA_VERSION,
        "summary": {
            "verdict": overall,
            "outcomes": {outcome.value: outcomes[outcome] for outcome in Outcome},
            "steps": [
                {
                    "dataset": report.provenance.dataset,
                    "step": decision.step,
                    "outcome": decision.outcome.value,
                }
                for report in reports
                for decision in report.decisions
            ],
        },
        "datasets": [_dataset(report) for report in reports],
    }


def without_times(value: Json) -> Json:
    """Copy a decision without anything that a clock or a machine had a part in.

    A step keeps ``untimed_verdict``, from findings without times. Its verdict, its outcome and what
    it waits for may depend on times and are left out, as is the summary.
    """
    rest = copy.deepcopy(value)
    del rest["summary"]
    for dataset in rest["datasets"]:
        del dataset["latency"], dataset["record"]
        for fact in MACHINE_FACTS:
            del dataset["provenance"][fact]
        for step in dataset["steps"]:
            del step["verdict"], step["outcome"], step["waits_for"], step["blocking"]
            step["findings"] = [found for found in step["findings"] if not found["timed"]]
    return rest
