"""``decision.json``: written, checked against its schema, and read back."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from harness.core.errors import BadFile
from harness.core.evidence import Agreement, Evidence
from harness.core.formats import json_file
from harness.core.gate import Cause, Finding, Outcome, StepDecision, Verdict
from harness.core.printable import printable
from harness.core.scores import BY_TEXT, Dependence, Estimate
from harness.report.inputs import Latency, ReportInput, Trust
from harness.report.page import custody
from harness.report.page.figures import is_verified, trusted_ratios
from harness.report.rounding import for_json


def as_json(trust: Trust | None) -> dict[str, Any] | None:
    """Give all of it for machines; None where nothing was decided."""
    if trust is None:
        return None
    return {
        "alpha": {
            "level": for_json(trust.policy.level),
            "allowed": for_json(trust.policy.alpha),
            "attempts": trust.policy.attempts,
            "declared": trust.policy.declared,
        },
    }


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


def steps_json(decisions: Iterable[StepDecision]) -> list[Json]:
    """Return what is decided of each step, as JSON has it."""
    return [_step(decision) for decision in decisions]


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
        "steps": steps_json(report.decisions),
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


SCHEMA = Path(__file__).with_name("decision.schema.json")
HINT = "Write it again with the gate stage"


class Decided(NamedTuple):
    """One step as ``decision.json`` says it."""

    dataset: str
    decision: StepDecision


def schema() -> Json:
    """JSON Schema (draft 2020-12) of ``decision.json``."""
    found: Json = json_file(SCHEMA)
    return found


def _read_estimate(value: Json | None) -> Estimate | None:
    if value is None or value["value"] is None:
        return None
    low = -float("inf") if value["low"] is None else value["low"]
    high = float("inf") if value["high"] is None else value["high"]
    return Estimate(value["value"], low, high, value["n"])


def _read_finding(value: Json, path: Path) -> Finding:
    kept = {name: value[name] for name in value if name != "settle"}
    kept |= {
        "verdict": Verdict(value["verdict"]),
        "cause": Cause(value["cause"]),
        "estimate": _read_estimate(value["estimate"]),
        "remedy": value["settle"],
    }
    try:
        return Finding(**kept)
    except ValueError as exc:
        raise BadFile(path, str(exc), HINT) from exc


def from_json(value: Json, path: Path) -> tuple[Decided, ...]:
    """Read the decisions back from the content of ``path``.

    Raises:
        BadFile: it breaks the schema, or says a verdict that its own findings do not give.
    """
    import jsonschema

    problems = jsonschema.Draft202012Validator(schema()).iter_errors(value)
    first = min(problems, key=lambda problem: problem.json_path, default=None)
    if first is not None:
        raise BadFile(path, f"{first.json_path}: {first.message}", HINT)
    found = []
    for dataset in value["datasets"]:
        for step in dataset["steps"]:
            decision = StepDecision(
                step=step["step"],
                control=step["control"],
                candidate=step["candidate"],
                taken=step["taken"],
                findings=tuple(_read_finding(each, path) for each in step["findings"]),
                blocked_by=step["waits_for"],
                accepted_by=step["accepted_by"],
            )
            said = step["verdict"], step["outcome"]
            if said != (decision.verdict.value, decision.outcome.value):
                problem = (
                    f"step {decision.step} of {dataset['dataset']} says {said[0]}, {said[1]},"
                    f" but its findings give {decision.verdict}, {decision.outcome}"
                )
                raise BadFile(path, problem, HINT)
            found.append(Decided(dataset["dataset"], decision))
    return tuple(found)
