"""Agreement of two runs by other code than ours: sets, and all pairs of documents."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from itertools import combinations

from harness.agreement import Class
from harness.core.errors import EvidenceError
from harness.core.evidence import Agreement
from harness.core.run import Run, Status
from harness.pipeline.compare import read_agreement, runs_of
from harness.pipeline.layout import Layout

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


def _shown(run: Run, queries: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Return the rankings of those of ``queries`` that the arm answered."""
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
    if len(shared) < 2:
        return None
    places = [there.index(doc_id) for doc_id in shared]
    alike = [1 if first < second else -1 for first, second in combinations(places, 2)]
    return sum(alike) / len(alike)
