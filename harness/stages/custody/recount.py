"""What a decision rests on, counted and queried a second time, and by code of others."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import combinations, zip_longest
from pathlib import Path
from typing import Any, NamedTuple

from engines import registry
from harness.agreement import Class
from harness.core.engine import IMPORTED
from harness.core.errors import EvidenceError
from harness.core.evidence import Agreement
from harness.core.formats import moment_of
from harness.core.gate import Finding, StepDecision
from harness.core.printable import many
from harness.core.records import Query
from harness.core.run import Row, Run, Status
from harness.core.scores import Estimate, Scores
from harness.corpus.prepared import Prepared
from harness.corpus.runs import read_run, read_scores
from harness.gates import equivalent, non_inferior, superior
from harness.measures.quality import oracle
from harness.policy.age import SLACK, check_past
from harness.policy.decision import of_gates
from harness.policy.pins import read
from harness.replay.drive import observe
from harness.stages import experiments
from harness.stages.compare import read_agreement, runs_of
from harness.stages.custody.receipts import check_same, index_files, read_manifest, replayed_index
from harness.stages.evidence import Subject
from harness.stages.experiments import HINT
from harness.stages.index import check_index
from harness.stages.judging.pool import samples_in
from harness.stages.layout import Layout
from harness.stages.score import slices

NAMES = ("gate", "step", "name", "dataset", "model")
"""Keys by which an element of a list is known."""
ABSENT = "nothing"
LONGEST = 200


class Difference(NamedTuple):
    """One value that was stored, and what is derived in its place; both as JSON."""

    where: str
    """From the outside in, e.g. ``steps.tantivy.findings.Quality.verdict``."""
    stored: str
    derived: str

    def __str__(self) -> str:
        """Say it in one clause."""
        return f"{self.where}: stored {self.stored}, derived {self.derived}"


def of_values(stored: Any, derived: Any) -> Difference | None:  # noqa: ANN401  of JSON
    """Compare two values that JSON can hold; None where they are equal."""
    return next(_value_differences("", stored, derived), None)


def of_scores(stored: Mapping[str, Scores], derived: Mapping[str, Scores]) -> Difference | None:
    """Compare two tables of values by query, to the last bit; None where they are equal."""
    for name in sorted({*stored, *derived}):
        if name not in stored or name not in derived:
            return Difference(
                name, *("values" if name in of else ABSENT for of in (stored, derived))
            )
        rows = [_rows(of[name]) for of in (stored, derived)]
        for query_id in dict.fromkeys((*rows[0], *rows[1])):
            values = [row.get(query_id, ABSENT) for row in rows]
            if values[0] != values[1]:
                return Difference(f"{name} of query {query_id}", *values)
    return None


def _rows(scores: Scores) -> dict[str, str]:
    """Write each query's value, or why it has none."""
    values = {query_id: repr(value) for query_id, value in scores.by_query.items()}
    reasons = {query_id: why for why, ids in scores.undefined.items() for query_id in ids}
    return {**values, **reasons}


def _value_differences(where: str, stored: Any, derived: Any) -> Iterator[Difference]:  # noqa: ANN401  of JSON
    if isinstance(stored, Mapping) and isinstance(derived, Mapping):
        for key in sorted({*stored, *derived}):
            yield from _value_differences(
                f"{where}.{key}".lstrip("."), stored.get(key, ABSENT), derived.get(key, ABSENT)
            )
    elif _is_list(stored) and _is_list(derived):
        for at, pair in enumerate(zip_longest(stored, derived, fillvalue=ABSENT)):
            yield from _value_differences(f"{where}.{_name(pair, at)}", *pair)
    elif stored != derived or type(stored) is not type(derived):
        yield Difference(where, _short(stored), _short(derived))


def _is_list(value: Any) -> bool:  # noqa: ANN401  of JSON
    return isinstance(value, Sequence) and not isinstance(value, str)


def _name(pair: Sequence[Any], at: int) -> str:
    for one in pair:
        for key in NAMES:
            if isinstance(one, Mapping) and isinstance(one.get(key), str):
                return str(one[key])
    return str(at)


def _short(value: Any) -> str:  # noqa: ANN401  of JSON
    text = value if value == ABSENT else json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."


NO_LIMIT_NS = 1 << 62
"""A busy machine is not a reason to call an answer another one."""
CLOSE = 1e-6
"""Two scores of one model may differ by so much, relatively, where threads add up otherwise."""


class Requeried(NamedTuple):
    """Outcome of one arm."""

    arm: str
    same: int
    """Queries whose hits are those of the run."""
    unanswered: int
    """Queries that failed or timed out in the run, and were not compared."""
    imported: bool
    """Whether its run came as a file, so that no engine can be queried."""


@dataclass(frozen=True, slots=True)
class Sample:
    """Which queries are run again."""

    count: int
    """Of each arm."""
    seed: int


def requery(
    layout: Layout, arms: Mapping[str, str], cache: Path, sample: Sample
) -> tuple[Requeried, ...]:
    """Run some queries of each arm again, and compare the hits with those of its run.

    ``arms`` gives, by name, what ``engines.registry`` loads each by: its name, or a path.

    Raises:
        EvidenceError: an answer has other hits, another order, other scores or another engine's
            fingerprint than the run.
        IndexNotReady: an arm has no index here, or one built with other settings.
        UnknownName: an arm has no file.
    """
    queries = Prepared.open(layout.data).queries()
    drawn = random.Random(sample.seed).sample(list(queries), min(sample.count, len(queries)))
    return tuple(_of_arm(layout, name, file, cache, drawn) for name, file in arms.items())


def _of_arm(layout: Layout, name: str, file: str, cache: Path, drawn: list[Query]) -> Requeried:
    wanted, run = read_manifest(layout, name), read_run(layout.run(name))
    if wanted.engine == IMPORTED:
        return Requeried(name, 0, 0, imported=True)
    arm = registry.load(file, cache)
    check_index(layout, arm)
    noted = replayed_index(layout, name)
    if noted is not None and noted != index_files(layout, name):
        raise EvidenceError(
            f"{layout.index(name)}: its files are not those that the run of {name} was made from."
            f" Run: harness replay --dataset {layout.root.name} --arm {name}, and decide anew"
        )
    rows = {row.query_id: row for row in run.rows()}
    own = Prepared.open(layout.data).ids().own
    depth = run.conditions.k if run.conditions else int(run.lengths.max(initial=1))
    answered = [query for query in drawn if rows[query.query_id].status == Status.ANSWERED]
    with arm.open(layout.index(name)) as searcher:
        check_same(layout, name, wanted, searcher.manifest)
        for query in answered:
            found = observe(searcher, query, depth, NO_LIMIT_NS).row
            if query.query_id in own:
                others = tuple(hit for hit in found.hits if hit.doc_id != query.query_id)
                found = found._replace(hits=others)
            if why := _answer_difference(rows[query.query_id], found):
                raise EvidenceError(
                    f"{layout.run(name)}: query {query.query_id} of {name}: {why}. Run: harness"
                    f" replay --dataset {layout.root.name} --arm {name}, and decide anew"
                )
    return Requeried(name, len(answered), len(drawn) - len(answered), imported=False)


def _answer_difference(stored: Row, row: Row) -> str:
    """Say how an answer differs from the one in the run; empty where it does not."""
    if row.status != Status.ANSWERED:
        return f"the run has an answer, and the engine says {row.error}"
    if stored.served_by != row.served_by:
        return f"was served by {stored.served_by[:12]}, and now by {row.served_by[:12]}"
    shown = list({hit.doc_id: hit for hit in row.hits}.values())
    if len(stored.hits) != len(shown):
        return f"the run has {many(len(stored.hits), 'hit')}, and the engine shows {len(shown)}"
    for rank, (old, new) in enumerate(zip(stored.hits, shown, strict=True), start=1):
        if old.doc_id != new.doc_id:
            return f"hit {rank} is {old.doc_id} in the run, and the engine shows {new.doc_id}"
        if not math.isclose(old.raw_score, new.raw_score, rel_tol=CLOSE, abs_tol=CLOSE):
            return (
                f"hit {rank}, {old.doc_id}, has the score {old.raw_score:g} in the run, and the"
                f" engine gives {new.raw_score:g}"
            )
    return ""


Second = Mapping[str, Mapping[str, Scores]]
"""Scores by arm and measure, as ir-measures gives them."""
CROSSCHECK_SAME = 1e-9
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


def check_values(layout: Layout) -> Second:
    """Compute every measure of every arm with ir-measures, and compare the table of scores.

    Raises:
        EvidenceError: a value is another, or stands where there is none, or the reverse.
    """
    data = Prepared.open(layout.data)
    qrels, asked = data.qrels(), [query.query_id for query in data.queries()]
    found: dict[str, Mapping[str, Scores]] = {}
    for (arm,), scores in read_scores(layout.per_query, ["arm"]).items():
        found[arm] = oracle(read_run(layout.run(arm)), qrels, tuple(scores), asked)
        same_values(arm, scores, found[arm])
    return found


def check_agreements(layout: Layout, pairs: Collection[tuple[str, str]]) -> int:
    """Compare each of the pairs of runs, and each control with itself, query by query.

    Return how many queries that were.

    Raises:
        EvidenceError: as ``crosscheck``.
    """
    count = 0
    for (control, candidate), agreement in read_agreement(layout).items():
        if (control, candidate) in pairs or control == candidate:
            crosscheck(*runs_of(layout, control, candidate), agreement)
            count += len(agreement.query_ids)
    return count


def crosscheck(control: Run, candidate: Run, agreement: Agreement) -> None:
    """Count Jaccard, tau and the class of every query again.

    Raises:
        EvidenceError: a value is another, or stands where none belongs, or the reverse. Or a query
            that an arm did not answer, or answered with nothing, is not of the class of its own.
    """
    _check_classes(control, candidate, agreement)
    counted = agreement.query_ids
    names = [name for name in agreement.scores if name.startswith(JACCARD)]
    depths = [int(name.removeprefix(JACCARD)) for name in names]
    values = {name: agreement.scores[name].by_query for name in (*names, "tau")}
    shown = [_shown(run, counted) for run in (control, candidate)]
    for query_id in counted:
        both = [rankings.get(query_id) for rankings in shown]
        left, right = both if None not in both else (None, None)
        expected = {f"{JACCARD}{depth}": _jaccard(left, right, depth) for depth in depths}
        expected["tau"] = _tau(left, right, max(depths))
        for name, wanted in expected.items():
            found = values[name].get(query_id)
            if (found is None) != (wanted is None) or (
                found is not None and wanted is not None and abs(found - wanted) > CROSSCHECK_SAME
            ):
                raise EvidenceError(
                    f"{name} of {control.arm} and {candidate.arm} for query {query_id} is"
                    f" {found}, but the check gives {wanted}; the comparison is wrong:"
                    " fix harness.agreement"
                )


def _check_classes(control: Run, candidate: Run, agreement: Agreement) -> None:
    """Compare all classes.

    A query that an arm did not answer has the class of that ending, and no agreement at all.
    """
    ended = [dict(zip(run.query_ids, run.status, strict=True)) for run in (control, candidate)]
    shown = [dict(zip(run.query_ids, run.lengths, strict=True)) for run in (control, candidate)]
    silent: dict[str, Class] = {}
    for query_id, kind in zip(agreement.query_ids, agreement.classes, strict=True):
        how = {of[query_id] for of in ended}
        some = (bool(shown[0][query_id]), bool(shown[1][query_id]))
        if unfinished := next((named for end, named in UNFINISHED.items() if end in how), None):
            silent[query_id] = wanted = unfinished
        elif some in EMPTY:
            wanted = EMPTY[some]
        else:
            _hold(query_id, kind, kind if kind not in NOT_SHOWN else None)
            continue
        _hold(query_id, kind, wanted)
    for name, scores in agreement.scores.items():
        if wrong := next((q for q in scores.query_ids if q in silent), None):
            raise EvidenceError(
                f"{control.arm} and {candidate.arm} have a {name} for query {wrong}, and by hand"
                f" it is {silent[wrong]}; the comparison cannot be believed: correct"
                " harness.agreement"
            )


def _hold(query_id: str, found: str, wanted: str | None) -> None:
    if found != wanted:
        by_hand = f"it is {wanted}" if wanted else "both arms answered and show something"
        raise EvidenceError(
            f"query {query_id} is of class {found}, but by hand {by_hand}; the comparison cannot"
            " be believed: correct harness.agreement"
        )


def same_values(arm: str, scores: Mapping[str, Scores], library: Mapping[str, Scores]) -> None:
    """Compare scores of an arm with those of ir-measures.

    Raises:
        EvidenceError: as ``check_values``.
    """
    for name, wanted in library.items():
        found, exact = scores[name].by_query, wanted.by_query
        for query_id in dict.fromkeys([*found, *exact]):
            ours, theirs = found.get(query_id), exact.get(query_id)
            if (ours is None) != (theirs is None) or (
                ours is not None and theirs is not None and abs(ours - theirs) > CROSSCHECK_SAME
            ):
                raise EvidenceError(
                    f"{name} of {arm} for query {query_id} is {ours}, but ir-measures says"
                    f" {theirs}; the scores are wrong: fix harness.measures"
                )


def _shown(run: Run, queries: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Give the rankings of those of ``queries`` that the arm answered."""
    answered = dict(zip(run.query_ids, run.status == Status.ANSWERED, strict=True))
    return run.rankings(query_id for query_id in queries if answered[query_id])


def _jaccard(
    left: tuple[str, ...] | None, right: tuple[str, ...] | None, depth: int
) -> float | None:
    if left is None or right is None:
        return None
    here, there = set(left[:depth]), set(right[:depth])
    return len(here & there) / len(here | there) if here | there else None


def _tau(left: tuple[str, ...] | None, right: tuple[str, ...] | None, depth: int) -> float | None:
    if left is None or right is None:
        return None
    if left[:depth] == right[:depth] and len(left) > 1:
        return 1.0
    there = right[:depth]
    shared = [doc_id for doc_id in left[:depth] if doc_id in there]
    if len(shared) < 2:  # noqa: PLR2004  one document has no order
        return None
    places = [there.index(doc_id) for doc_id in shared]
    alike = [1 if first < second else -1 for first, second in combinations(places, 2)]
    return sum(alike) / len(alike)


RECOUNT_SAME = 1e-8
"""``decision.json`` keeps ten significant digits."""
Differences = non_inferior.Settings | superior.Settings | equivalent.Settings
"""Gates whose number is a mean difference of one measure."""


class Recounted(NamedTuple):
    """What was counted twice."""

    values: int
    comparisons: int
    """Queries of pairs of runs."""
    gates: int


def recount(layout: Layout, subject: Subject, decisions: Sequence[StepDecision]) -> Recounted:
    """Count values, agreements and differences again, and compare them with what is written.

    The number of a gate that a judged sample moves is not counted here; it is derived again alone.

    Raises:
        EvidenceError: one is another, or stands where there is none, or the reverse.
    """
    second = check_values(layout)
    compared = check_agreements(layout, subject.pairs.values())
    members = slices(Prepared.open(layout.data).queries())
    gates, sampled = 0, samples_in(layout)
    steps = subject.policy.steps if subject.policy else ()
    for step, decision in zip(steps, decisions, strict=True):
        for gate, finding in zip(step.gates, of_gates(decision), strict=True):
            settings = gate.settings
            if isinstance(settings, Differences) and finding.estimate:
                versus = settings.versus if isinstance(settings, superior.Settings) else None
                arms = versus or step.control, step.candidate
                if (*arms, settings.measure) in sampled:
                    continue
                inside = members.get(settings.slice, frozenset()) if settings.slice else None
                both = [second[arm][settings.measure].by_query for arm in arms]
                _same_difference(step.name, finding, finding.estimate, both, inside)
                gates += 1
    values = sum(len(one.query_ids) for of in second.values() for one in of.values())
    return Recounted(values, compared, gates)


def _same_difference(
    step: str,
    finding: Finding,
    said: Estimate,
    values: Sequence[Mapping[str, float]],
    inside: frozenset[str] | None,
) -> None:
    """Add up the differences of one gate, and hold its number and the ends around it."""
    control, candidate = values
    shared = control.keys() & candidate.keys()
    counted = shared if inside is None else shared & inside
    mean = math.fsum(candidate[q] - control[q] for q in counted) / max(len(counted), 1)
    if abs(mean - said.value) > RECOUNT_SAME or not said.low <= said.value <= said.high:
        raise EvidenceError(
            f"gate {finding.gate!r} of step {step}: says {said.value:g} [{said.low:g},"
            f" {said.high:g}], but {len(counted)} differences of ir-measures have a mean of"
            f" {mean:g}; the gate cannot be believed: correct the rule {finding.rule}"
        )


def check_times(layout: Layout, about: Mapping[str, Any], subject: Subject) -> None:
    """Refuse a decision whose time is not its log line's, or that has a time of the future below.

    ``about`` is what it says of its one data set. Replays, race, load test and traffic are held
    where they are read.

    Raises:
        EvidenceError: as said; the message names the file and what to do.
    """
    decided_at = moment_of(about["provenance"]["decided_at"])
    number = int(about["record"]["number"])
    experiments.before_decision(layout, number)
    path, log = layout.log, experiments.read(layout)
    logged = log.experiments[number - 1].at
    if abs(logged - decided_at) > SLACK:
        raise EvidenceError(
            f"{layout.decision}: was decided at {decided_at.isoformat()}, and line {number} of"
            f" {path}, which is of it, is of {logged.isoformat(timespec='seconds')}. Decide anew:"
            f" harness gate --dataset {layout.root.name}"
        )
    for one in log.experiments:
        _past(f"{path}:{one.number}", one.at, HINT)
    for file, at in _stated(layout, subject):
        _past(str(file), at, "Bring the file back as it was, or make it anew")


def _stated(layout: Layout, subject: Subject) -> Iterator[tuple[Path, datetime]]:
    """Yield when evidence was pinned."""
    if subject.policy is None or subject.policy_file is None:
        return
    if pin := read(subject.policy_file).datasets.get(layout.root.name):
        yield from ((subject.policy_file, made.at) for made in pin.made)


def _past(where: str, at: datetime, hint: str) -> None:
    try:
        check_past(at)
    except EvidenceError as exc:
        raise EvidenceError(f"{where}: {exc}. {hint}") from exc
