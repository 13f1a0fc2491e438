"""A decision computed again from runs, judgements, raw times and policy, and compared.

Checksums detect accidental changes. Someone who edits a verdict can also update the checksums, so
everything that follows from the raw evidence is computed again in an empty folder. It must be what
is stored, byte for byte. What does not follow from it (licence, source, packages, commands,
machine) is taken as stated.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError

from harness.core import digest
from harness.core.errors import BadFile, EvidenceError
from harness.core.files import scratch, write_text
from harness.core.formats import json_file, json_of, moment_of
from harness.core.parts import kinds
from harness.core.reading import text_of
from harness.core.scores import BY_TEXT
from harness.corpus.runs import PAIR, read_scores
from harness.pipeline import experiments, receipts
from harness.pipeline.compare import compare, read_agreement
from harness.pipeline.evidence import ReportSubject, pairs_of
from harness.pipeline.experiments import ExperimentLog
from harness.pipeline.gate import StoredDifference, as_stated, decided, first_difference, texts
from harness.pipeline.layout import Layout
from harness.pipeline.params import CompareParams, ScoreParams
from harness.pipeline.score import score
from harness.policy.age import SLACK, check_past
from harness.policy.load import NamedStep, as_applied, load_policy
from harness.policy.pins import read as read_pins

PREFIX = 12
MEANS = ("scores", "slices", "differences")


class Derived(NamedTuple):
    """What was computed again, and found equal."""

    values: int
    """Values by query, of quality and of agreement."""
    findings: int


def derive(layout: Layout, about: Mapping[str, Any], subject: ReportSubject) -> Derived:
    """Compute all that the decision in ``layout`` says again, and compare.

    ``about`` is what it says of its one data set, and ``subject`` what that judged.
    """
    before = experiments.before_decision(layout, about["record"]["number"])
    at = moment_of(about["provenance"]["decided_at"])
    with scratch() as folder:
        again = _beside(layout, folder, before)
        score(again, subject.arms, subject.score)
        quality = _same(
            layout.per_query, *(_scores(of.per_query, ["arm"]) for of in (layout, again))
        )
        pairs = list(dict.fromkeys(subject.pairs.values()))
        how = subject.policy.clusters if subject.policy else BY_TEXT
        compare(again, pairs, subject.compare, subject.rules, how=how)
        alike = _same(layout.agreement, *(_scores(of.agreement, PAIR) for of in (layout, again)))
        _same(layout.classes, *(_classes(of) for of in (layout, again)))
        report = as_stated(decided(again, subject, before, at), about["provenance"])
        means = {getattr(layout, of): text_of(getattr(again, of)) for of in MEANS}
        for path, text in {**means, **texts(layout, report)}.items():
            _same_text(path, text)
    values = (one for table in (quality, alike) for of in table.values() for one in of.values())
    return Derived(sum(map(len, values)), sum(len(step["findings"]) for step in about["steps"]))


def _beside(layout: Layout, folder: Path, before: ExperimentLog) -> Layout:
    """Make a layout in ``folder`` that has the raw evidence of ``layout``, and nothing derived.

    ``before`` is the log of experiments as it was before the decision.
    """
    again = Layout(folder / "build" / layout.root.name, folder / "today", layout.cache)
    again.experiments.mkdir(parents=True)
    write_text(again.log, before.text)
    raw = (layout.data, layout.manifests, layout.tunings, layout.runs, layout.race_receipt)
    beside = [path for kind in kinds() for path in kind.artifacts(layout)]
    tracked = [path for path in beside if path.is_relative_to(layout.root)]
    today = [layout.times, layout.replays, *(path for path in beside if path not in tracked)]
    for of, to, paths in (
        (layout.experiments, again.experiments, [*layout.experiments.glob("inventory-*.json")]),
        (layout.root, again.root, [*raw, *tracked]),
        (layout.today, again.today, today),
    ):
        for path in filter(Path.exists, paths):
            link = to / path.relative_to(of)
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(path.resolve())
    return again


def _scores(path: Path, keys: Iterable[str]) -> dict[str, Any]:
    """Read a table of values as JSON has it: by arm or pair, measure and query."""
    return {
        "~".join(key): {
            name: {
                **one.by_query,
                **{query: why for why in one.undefined for query in one.undefined[why]},
            }
            for name, one in by_measure.items()
        }
        for key, by_measure in read_scores(path, list(keys)).items()
    }


def _classes(layout: Layout) -> dict[str, Any]:
    return {
        "~".join(pair): {"depth": of.depth, **dict(zip(of.query_ids, of.classes, strict=True))}
        for pair, of in read_agreement(layout).items()
    }


def _same(path: Path, stored: dict[str, Any], derived: dict[str, Any]) -> dict[str, Any]:
    """Compare two tables, and return the first."""
    if stored != derived:
        _refuse(path, first_difference(stored, derived))
    return stored


def _same_text(path: Path, derived: str) -> None:
    """Compare a file: where it holds JSON, its values first, so that one can be named."""
    stored = text_of(path)
    if stored == derived:
        return
    if path.suffix == ".json":
        _refuse(path, first_difference(json_of(stored), json_of(derived)))
        raise EvidenceError(f"{path}: says the same in other bytes than those it was written in")
    raise EvidenceError(f"{path}: is not what the decision beside it gives")


def _refuse(path: Path, difference: StoredDifference | None) -> None:
    if difference:
        raise EvidenceError(f"{path}: {difference}")


def judged_in(layout: Layout) -> tuple[dict[str, Any], ReportSubject]:
    """Read what the decision in ``layout`` says of its one data set, and what it judged and how."""
    hint = f"Decide anew: harness gate --dataset {layout.root.name}"
    beside = receipts.check_all(layout.decision_receipt, hint)
    about: dict[str, Any]
    (about,) = json_file(layout.decision)["datasets"]
    of, sha256 = about["provenance"], about["policy"]["sha256"]
    policy_file = next((path for path in beside if digest.of_file(path) == sha256), None)
    if policy_file is None:
        raise EvidenceError(
            f"{layout.decision}: was made by a policy {sha256[:PREFIX]} that"
            f" {layout.decision_receipt} does not name. {hint}"
        )
    try:
        sure = ScoreParams.model_validate(of["settings"]["score"])
        depths = CompareParams.model_validate(of["settings"]["compare"])
        arms = tuple(of["settings"]["gate"]["arms"])
    except (KeyError, TypeError, ValidationError) as exc:
        raise BadFile(layout.decision, f"does not state its settings ({exc!r})", hint) from exc
    steps = [NamedStep(one["step"], one["control"], one["candidate"]) for one in about["steps"]]
    policy = as_applied(load_policy(policy_file), steps)
    pin = about["evidence"]["pin"]["command"]
    return about, ReportSubject(
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
        pin=pin,
        place=shlex.join(shlex.split(pin)[-2:]),
    )


def check_times(layout: Layout, about: Mapping[str, Any], subject: ReportSubject) -> None:
    """Refuse a decision whose time is not its log line's, or that has a time of the future below.

    Replays, race, load test and traffic are held where they are read.
    """
    decided_at = moment_of(about["provenance"]["decided_at"])
    number = int(about["record"]["number"])
    experiments.before_decision(layout, number)
    log = experiments.read(layout)
    logged = log.experiments[number - 1].at
    if abs(logged - decided_at) > SLACK:
        raise EvidenceError(
            f"{layout.decision}: was decided at {decided_at.isoformat()}, and line {number} of"
            f" {layout.log}, which is of it, is of {logged.isoformat(timespec='seconds')}. Decide"
            f" anew: harness gate --dataset {layout.root.name}"
        )
    for where, at in _stated(layout, subject, log):
        try:
            check_past(at)
        except EvidenceError as exc:
            raise EvidenceError(f"{where}: {exc}. {experiments.HINT}") from exc


def _stated(
    layout: Layout, subject: ReportSubject, log: ExperimentLog
) -> Iterator[tuple[str, datetime]]:
    """Yield when each line of the log was written, and when the evidence was pinned."""
    yield from ((f"{layout.log}:{one.number}", one.at) for one in log.experiments)
    file = subject.policy_file
    if file and (pin := read_pins(file).datasets.get(layout.root.name)):
        yield from ((str(file), made.at) for made in pin.made)
