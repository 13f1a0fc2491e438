"""A decision derived again, from runs, judgements, raw times and policy, in an empty folder.

Digests say that files are those that were there. The hand that edits a verdict can write every
digest anew. So every value that follows from runs, judgements, times and policy is computed once
more by the same stages, and must be what is written, byte for byte. What does not follow from
them (licence, source, packages, commands, machine) is stated, and is taken as stated.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError

from harness.core import digest
from harness.core.errors import BadFile, EvidenceError
from harness.core.files import scratch, write_json, write_text
from harness.core.formats import json_file, json_of, moment_of
from harness.core.reading import text_of
from harness.core.scores import BY_TEXT
from harness.corpus.runs import read_scores
from harness.policy.load import Judged, as_applied, load_policy
from harness.stages import experiments
from harness.stages.compare import KEYS, compare, read_agreement
from harness.stages.custody import recount
from harness.stages.custody.recount import Difference
from harness.stages.evidence import Subject, pairs_of
from harness.stages.experiments import Log
from harness.stages.gate import gate
from harness.stages.judging.pool import folder_of
from harness.stages.layout import Layout
from harness.stages.load.files import receipt_of, trials_of
from harness.stages.params import CompareParams, ScoreParams
from harness.stages.report import STATED
from harness.stages.score import score

PREFIX = 12
MEANS = ("scores", "slices", "differences")
SAID = ("verdict", "estimate", "bound")
"""What is looked at first where a finding differs."""


class Rederived(NamedTuple):
    """What was computed again, and found equal."""

    values: int
    """Values by query, of quality and of agreement."""
    findings: int


def rederive(layout: Layout, about: Mapping[str, Any], subject: Subject) -> Rederived:
    """Compute all that the decision in ``layout`` says again, and compare.

    ``about`` is what it says of its one data set, and ``subject`` what that judged.

    Raises:
        EvidenceError: a value differs; the message names it, as stored and as derived.
    """
    threads = subject.rules.threads
    with scratch() as folder:
        before = experiments.before_decision(layout, about["record"]["number"])
        again = _beside(layout, folder, before)
        score(again, subject.arms, subject.score, threads=threads)
        _same_scores(layout.per_query, again.per_query, ["arm"])
        pairs = list(dict.fromkeys(subject.pairs.values()))
        how = subject.policy.clusters if subject.policy else BY_TEXT
        compare(again, pairs, subject.compare, subject.rules, how=how)
        values = _same_agreement(layout, again)
        gate(again, subject, now=moment_of(about["provenance"]["decided_at"]))
        _as_stated(again.decision, about["provenance"])
        for name in MEANS:
            _same_json(getattr(layout, name), getattr(again, name))
        _same_decision(layout.decision, again.decision)
        _same_json(layout.findings, again.findings)
        if digest.of_file(layout.junit) != digest.of_file(again.junit):
            raise EvidenceError(f"{layout.junit}: is not what the decision beside it gives")
    return Rederived(values, sum(len(step["findings"]) for step in about["steps"]))


def policy_of(layout: Layout, beside: Iterable[Path], sha256: str, hint: str) -> Path:
    """Give the file of the policy that decided, among those that the receipt names.

    Raises:
        EvidenceError: none of them is.
    """
    for path in beside:
        if digest.of_file(path) == sha256:
            return path
    raise EvidenceError(
        f"{layout.decision}: was made by a policy {sha256[:PREFIX]} that"
        f" {layout.decision_receipt} does not name. {hint}"
    )


def subject_of(
    layout: Layout, about: Mapping[str, Any], policy_file: Path, threads: int
) -> Subject:
    """Say what was judged, by whom and how, as the decision itself states it.

    Raises:
        BadFile: it does not state its settings.
        EvidenceError: the policy cannot have judged these steps.
    """
    of = about["provenance"]
    try:
        sure = ScoreParams.model_validate(of["settings"]["score"])
        depths = CompareParams.model_validate(of["settings"]["compare"])
        judged = of["settings"]["gate"]
        arms = tuple(judged["arms"])
    except (KeyError, TypeError, ValidationError) as exc:
        hint = f"Decide anew: harness gate --dataset {layout.root.name}"
        raise BadFile(layout.decision, f"does not state its settings ({exc!r})", hint) from exc
    steps = [Judged(one["step"], one["control"], one["candidate"]) for one in about["steps"]]
    policy = as_applied(load_policy(policy_file).on(threads), steps)
    return Subject(
        pairs=pairs_of(policy),
        arms=arms,
        rules=policy.rules,
        licence=of["licence"],
        source=of["source"],
        commands=tuple(of["commands"]),
        score=sure,
        compare=depths,
        policy=policy,
        policy_file=policy_file,
        pin=about["evidence"]["pin"]["command"],
        place=shlex.join(shlex.split(about["evidence"]["pin"]["command"])[-2:]),
    )


def _beside(layout: Layout, folder: Path, before: Log) -> Layout:
    """Make a layout in ``folder`` that has the raw evidence of ``layout``, and nothing derived.

    ``before`` is the log of experiments as it was before the decision.
    """
    again = Layout(folder / "build" / layout.root.name, folder / "today", layout.cache)
    again.root.mkdir(parents=True)
    again.experiments.mkdir(parents=True)
    for path in layout.experiments.glob("inventory-*.json"):
        _link(path, again.experiments / path.name)
    write_text(again.log, before.text)
    raw = [layout.data, layout.manifests, layout.tunings, layout.runs, layout.race_receipt]
    for path in (*raw, folder_of(layout)):
        _link(path, again.root / path.name)
    _link(receipt_of(layout), receipt_of(again))
    for path in (layout.times, layout.replays, layout.today / "traffic", trials_of(layout)):
        _link(path, again.today / path.name)
    return again


def _link(path: Path, to: Path) -> None:
    if path.exists():
        to.symlink_to(path.resolve())


def _same_scores(stored: Path, derived: Path, keys: list[str]) -> int:
    """Compare two tables of values, and count the values."""
    tables = [read_scores(path, keys) for path in (stored, derived)]
    for key in sorted({*tables[0], *tables[1]}):
        found = recount.of_scores(*(table.get(key, {}) for table in tables))
        if found:
            _refuse(stored, found._replace(where=f"{'~'.join(key)}: {found.where}"))
    return sum(len(one.query_ids) for of in tables[0].values() for one in of.values())


def _same_agreement(layout: Layout, again: Layout) -> int:
    """Compare values and classes of every pair, and count the values of quality and agreement."""
    count = _same_scores(layout.agreement, again.agreement, list(KEYS))
    classes = [
        {
            "~".join(pair): {"depth": of.depth, **dict(zip(of.query_ids, of.classes, strict=True))}
            for pair, of in one.items()
        }
        for one in (read_agreement(layout), read_agreement(again))
    ]
    if found := recount.of_values(*classes):
        _refuse(layout.classes, found)
    scores = read_scores(layout.per_query, ["arm"])
    return count + sum(len(one.query_ids) for of in scores.values() for one in of.values())


def _same_decision(stored: Path, derived: Path) -> None:
    """Compare two decisions; where they differ in a gate, the gate is named."""
    texts = [text_of(path) for path in (stored, derived)]
    about = [json_of(text)["datasets"][0] for text in texts]
    for steps in zip(*(one["steps"] for one in about), strict=True):
        name = steps[0]["step"]
        gates = [[found["gate"] for found in step["findings"]] for step in steps]
        if other := recount.of_values(*gates):
            _refuse(stored, other._replace(where=f"gates of step {name}{other.where}"))
        for findings in zip(*(step["findings"] for step in steps), strict=True):
            first = [{key: found[key] for key in SAID} for found in findings]
            for pair in (first, findings):
                if other := recount.of_values(*pair):
                    gate_of = f"gate {findings[0]['gate']!r} of step {name}"
                    _refuse(stored, other._replace(where=f"{gate_of}: {other.where}"))
    _same_json(stored, derived)


def _as_stated(decision: Path, stated: Mapping[str, Any]) -> None:
    """Put facts of the day and place of the decision where today's stand."""
    written = json_file(decision)
    written["datasets"][0]["provenance"].update({fact: stated[fact] for fact in STATED})
    write_json(decision, written)


def _same_json(stored: Path, derived: Path) -> None:
    """Compare two files of JSON: their values first, so that one can be named; then their bytes."""
    texts = [text_of(path) for path in (stored, derived)]
    if found := recount.of_values(*map(json_of, texts)):
        _refuse(stored, found)
    if texts[0] != texts[1]:
        raise EvidenceError(f"{stored}: says the same in other bytes than those it was written in")


def _refuse(path: Path, difference: Difference) -> None:
    raise EvidenceError(f"{path}: {difference}")
