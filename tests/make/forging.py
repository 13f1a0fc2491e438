"""What a forger does, what tests of planted faults share, and agreement by other code."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

from harness.agreement import Class
from harness.core import digest
from harness.core.engine import Answer
from harness.core.errors import EvidenceError
from harness.core.evidence import Agreement
from harness.core.files import write_json
from harness.core.gate import Finding, Outcome, StepDecision
from harness.core.run import Run, Status
from harness.pipeline import experiments
from harness.pipeline.compare import read_agreement, runs_of
from harness.pipeline.gate import DETERMINISTIC
from harness.pipeline.layout import Layout
from harness.pipeline.replay import replay
from harness.report.decision import without_times
from harness_engines.stacks.text.tantivy import TantivySearcher
from tests.make.toy import CANDIDATE, CONTROL, Toy

JACCARD = "Jaccard@"
EMPTY = {
    (False, False): Class.BOTH_EMPTY,
    (False, True): Class.SERVING_EMPTY,
    (True, False): Class.SHADOW_EMPTY,
}
"""Class by whether control and candidate show anything."""
UNFINISHED = {
    Status.NOT_ASKED: Class.SKIPPED,
    Status.FAILED: Class.ERROR,
    Status.TIMED_OUT: Class.TIMEOUT,
}
"""Class of a query that an arm did not answer; the first that fits."""
NOT_SHOWN = frozenset({*EMPTY.values(), *UNFINISHED.values()})


def check_agreements(layout: Layout, pairs: Collection[tuple[str, str]]) -> None:
    """Compare each of the pairs of runs, and each control with itself, query by query."""
    for (control, candidate), agreement in read_agreement(layout).items():
        if (control, candidate) in pairs or control == candidate:
            crosscheck(*runs_of(layout, control, candidate), agreement)


def crosscheck(control: Run, candidate: Run, agreement: Agreement) -> None:
    """Count the class, Jaccard and tau of every query again, by sets and all pairs of documents."""
    ended = [dict(zip(run.query_ids, run.status, strict=True)) for run in (control, candidate)]
    names = [name for name in agreement.scores if name.startswith(JACCARD)]
    depths = {name: int(name.removeprefix(JACCARD)) for name in names}
    values = {name: agreement.scores[name].by_query for name in (*names, "tau")}
    for query_id, kind in zip(agreement.query_ids, agreement.classes, strict=True):
        left, right = control.ranking(query_id), candidate.ranking(query_id)
        how = {of[query_id] for of in ended}
        silent = next((named for end, named in UNFINISHED.items() if end in how), None)
        wanted = silent or EMPTY.get((bool(left), bool(right)))
        if kind != wanted if wanted else kind in NOT_SHOWN:
            by_hand = f"it is {wanted}" if wanted else "both arms answered and show something"
            raise EvidenceError(f"query {query_id} is of class {kind}, but by hand {by_hand}")
        for name, by_query in values.items():
            found = by_query.get(query_id)
            if silent and found is not None:
                raise EvidenceError(
                    f"they have a {name} for query {query_id}, and by hand it is {silent}"
                )
            again = (
                _tau(left, right, max(depths.values()))
                if name == "tau"
                else _jaccard(left, right, depths[name])
            )
            if not silent and not same(found, again):
                raise EvidenceError(
                    f"{name} of {control.arm} and {candidate.arm} for query {query_id} is {found},"
                    f" but the check gives {again}"
                )


def same(one: float | None, other: float | None, rel: float = 0.0) -> bool:
    """Return whether two values are alike, or both are missing."""
    if one is None or other is None:
        return one is other
    return math.isclose(one, other, rel_tol=rel, abs_tol=1e-9)


def _jaccard(left: Sequence[str], right: Sequence[str], depth: int) -> float | None:
    here, there = set(left[:depth]), set(right[:depth])
    return len(here & there) / len(here | there) if here | there else None


def _tau(left: Sequence[str], right: Sequence[str], depth: int) -> float | None:
    if left[:depth] == right[:depth] and len(left) > 1:
        return 1.0
    places = [right[:depth].index(one) for one in left[:depth] if one in right[:depth]]
    alike = [1 if first < second else -1 for first, second in combinations(places, 2)]
    return sum(alike) / len(alike) if alike else None


Edit = Callable[[dict[str, Any]], object]
"""Changes what ``decision.json`` says of one data set, in place."""


def restamp(layout: Layout) -> None:
    """Write the digests of all receipts anew, the lowest first."""
    runs = sorted(layout.root.glob("runs/*.receipt.json"))
    for receipt in (*runs, layout.score_receipt, layout.compare_receipt, layout.decision_receipt):
        names = json.loads(receipt.read_text())
        write_json(receipt, {name: digest.of_file(receipt.parent / name) for name in names})


def chain(layout: Layout, number: int) -> None:
    """Write the log anew from a decision's line on, as if it had said so."""
    path = layout.log
    lines = path.read_text().splitlines()
    log = experiments.read(layout)
    kept = lines[: number - 1]
    for one in log.experiments[number - 1 :]:
        head = digest.of_bytes(kept[-1].encode()) if kept else experiments.FIRST
        said = digest.of_file(layout.decision) if one.number == number else one.decision
        changed = one.model_copy(update={"previous": head, "decision": said})
        kept.append(changed.model_dump_json())
    path.write_text("".join(f"{line}\n" for line in kept))


def forge(layout: Layout, edit: Edit) -> None:
    """Edit a decision, its findings and its summary, and make every digest fit."""
    written = json.loads(layout.decision.read_text())
    (about,) = written["datasets"]
    edit(about)
    outcomes = [step["outcome"] for step in about["steps"]]
    verdicts = {step["verdict"] for step in about["steps"]}
    summary = written["summary"]
    worst = [word for word in ("fail", "inconclusive", "pass") if word in verdicts]
    summary["verdict"] = worst[0]
    summary["outcomes"] = {word: outcomes.count(word) for word in summary["outcomes"]}
    for step, outcome in zip(summary["steps"], outcomes, strict=True):
        step["outcome"] = outcome
    write_json(layout.decision, written)
    steady = without_times(written)["datasets"][0]
    write_json(layout.findings, {key: steady[key] for key in DETERMINISTIC})
    restamp(layout)
    chain(layout, about["record"]["number"])


def promoted(about: dict[str, Any]) -> None:
    """Say PASS at every gate, each by an interval that lies where a PASS has it."""
    for step in about["steps"]:
        step.update(verdict="pass", untimed_verdict="pass", outcome="promote", blocking=[])
        for finding in step["findings"]:
            if finding["verdict"] != "pass":
                finding.update(verdict="pass", cause="kept", settle="")
                if finding["estimate"] and finding["limit"] is not None:
                    good = finding["limit"] + 0.1
                    finding["estimate"].update(value=good, low=good - 0.01, high=good + 0.01)


def replace_in(path: Path, old: str, new: str) -> None:
    """Change one place of a text file."""
    text = path.read_text()
    assert old in text, path
    path.write_text(text.replace(old, new, 1))


Search = Callable[[TantivySearcher, str, int], Answer]
HONEST: Search = TantivySearcher.search


def measure(project: Toy) -> None:
    """Ask the candidate once more, and score and compare."""
    replay(project.layout, CANDIDATE, project.cache, project.params.replay)
    project.judge_again()


def check_kernels(project: Toy) -> None:
    """Compute the agreements by other code."""
    check_agreements(project.layout, [(CONTROL, CANDIDATE)])


def blocking(decision: StepDecision) -> dict[str, Finding]:
    """Give what turned the decision away, by gate; it must have been turned away."""
    assert decision.outcome is not Outcome.PROMOTE
    return {finding.gate: finding for finding in decision.blocking}
