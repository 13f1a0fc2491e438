"""Agreement of two runs without judgements: overlap, order, classes of queries."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import compress

import numpy as np
from numpy.typing import NDArray

from harness.core.elementary import log2, powers
from harness.core.errors import EvidenceError, HarnessError, MismatchedQueries
from harness.core.evidence import Agreement
from harness.core.run import Run, Status
from harness.core.scores import Scores

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
ABSENT = np.iinfo(np.int32).max
"""Stands where a rank would, after every rank: the document is not in that list."""
DEEPEST = ABSENT - 1
"""Lists may be cut at no greater depth; none is that long."""


@dataclass(frozen=True, slots=True, eq=False)
class RankPair:
    """Two runs by query, in the control's order: row ``i`` is ``query_ids[i]``. Ranks from 0."""

    query_ids: tuple[str, ...]
    candidate_rows: Ints
    """Shape (queries,): the row of each query in the candidate's run."""
    control_length: Ints
    """Shape (queries,): hits of the control."""
    candidate_length: Ints
    """Shape (queries,)."""
    rank: Ints
    """Shape (queries, longest list of the control): the candidate's rank of the control's document
    at each rank. ``ABSENT`` where the candidate does not show it or the control's list is over."""

    def lengths(self, depth: int) -> tuple[Ints, Ints]:
        """Hits of control and candidate within ``depth``, each of shape (queries,)."""
        check_depth(depth)
        return np.minimum(self.control_length, depth), np.minimum(self.candidate_length, depth)

    def within(self, depth: int) -> Ints:
        """``rank`` of the lists cut at ``depth``, shape (queries, at most depth)."""
        check_depth(depth)
        rank = self.rank[:, :depth]
        cut: Ints = np.where(rank < depth, rank, ABSENT)
        return cut

    def shared(self, depth: int) -> Ints:
        """Documents that both lists show within ``depth``, shape (queries,)."""
        found: Ints = (self.within(depth) < depth).sum(axis=1, dtype=np.int64)
        return found

    @classmethod
    def of(cls, control: Run, candidate: Run) -> RankPair:
        """Match two runs by query id and document id, whatever the order of either."""
        positions = candidate.positions
        here, there = set(control.query_ids), set(positions)
        if here != there:
            raise MismatchedQueries(here - there, there - here)
        code = {doc_id: at for at, doc_id in enumerate(control.vocabulary)}
        recode = np.array(
            [code.setdefault(doc_id, len(code)) for doc_id in candidate.vocabulary], dtype=np.int64
        )
        row_of = np.array([positions[query_id] for query_id in control.query_ids], dtype=np.int64)
        place = np.empty(len(row_of), dtype=np.int64)
        place[row_of] = np.arange(len(row_of))
        rows, ranks = _rows_and_ranks(control)
        other_rows, other_ranks = _rows_and_ranks(candidate)
        width = max(len(code), 1)
        wanted = rows * width + control.docs
        known = place[other_rows] * width + recode[candidate.docs]
        order = np.argsort(known)
        at = np.searchsorted(known, wanted, sorter=order)
        found = np.full(len(wanted), ABSENT, dtype=np.int64)
        inside = np.flatnonzero(at < len(known))
        hit = inside[known[order[at[inside]]] == wanted[inside]]
        found[hit] = other_ranks[order[at[hit]]]
        rank = np.full((len(control), int(control.lengths.max(initial=0))), ABSENT, dtype=np.int64)
        rank[rows, ranks] = found
        return cls(
            query_ids=control.query_ids,
            candidate_rows=row_of,
            control_length=control.lengths,
            candidate_length=candidate.lengths[row_of],
            rank=rank,
        )


def check_depth(depth: int) -> None:
    """Refuse a depth that holds no rank, or that no rank could stand at."""
    if not 1 <= depth <= DEEPEST:
        raise HarnessError(f"depth {depth} holds no rank; give an integer from 1 to {DEEPEST}")


def _rows_and_ranks(run: Run) -> tuple[Ints, Ints]:
    """Row and rank of every hit, each of shape (hits,)."""
    rows = np.repeat(np.arange(len(run), dtype=np.int64), run.lengths)
    return rows, np.arange(len(run.docs), dtype=np.int64) - run.offsets[rows]


class Class(StrEnum):
    """How a query ended, of the lists A of the control and B of the candidate, cut at k.

    The first that holds, from the top, is the query's class.
    """

    SHED = "shed"
    """Not sent to the candidate, to spare the machine."""
    SKIPPED = "skipped"
    """One of the arms was not asked."""
    ERROR = "error"
    """One of the arms failed; what the other showed is not looked at."""
    TIMEOUT = "timeout"
    """One of the arms was too slow."""
    STALE = "stale"
    """An index moved between the two answers, so a difference proves nothing."""
    BOTH_EMPTY = "both_empty"
    """Both found nothing."""
    SERVING_EMPTY = "serving_empty"
    """Only the candidate found something."""
    SHADOW_EMPTY = "shadow_empty"
    """Only the control found something."""
    EXACT = "exact"
    """The same documents in the same order."""
    TIE_ORDER = "tie_order"
    """The same documents; those in other places have one raw score in A, and one in B."""
    TIE_CUT = "tie_cut"
    """Both have k documents, and the same ones but for the order of ties, down to a tie that ends
    both lists. Of that tie each shows others."""
    REORDER = "reorder"
    """The same documents in another order."""
    EXPANSION = "expansion"
    """B has all of A and more, in any order."""
    TRUNCATION = "truncation"
    """A has all of B and more, in any order."""
    OVERLAP = "overlap"
    """They share documents, and each has its own."""
    DISJOINT = "disjoint"
    """They share no document."""


ERRORED = frozenset({Class.ERROR, Class.TIMEOUT})
SKIPPED = frozenset({Class.SKIPPED, Class.STALE})
UNCOMPARED = ERRORED | SKIPPED | {Class.SHED}


def classify(
    control: Run,
    candidate: Run,
    pair: RankPair,
    *,
    depth: int,
    shed: Collection[str],
    stale: Collection[str],
) -> tuple[Class, ...]:
    """Class of each query of ``pair``, in its order; ``shed`` and ``stale`` name queries."""
    shed, stale = frozenset(shed), frozenset(stale)
    unknown = (shed | stale) - set(pair.query_ids)
    if unknown:
        raise EvidenceError(
            f"{len(unknown)} shed or stale queries (for example {sorted(unknown)[:3]}) are not in"
            " the runs; hand over the observations of these runs"
        )
    how = np.stack([control.status, candidate.status[pair.candidate_rows]])
    a, b = pair.lengths(depth)
    shared = pair.shared(depth)
    same = (shared == a) & (shared == b)
    rank = pair.within(depth)
    own = np.arange(rank.shape[1])
    moved = (rank != own) & (own < a[:, None])
    cases = {
        Class.SHED: np.array([q in shed for q in pair.query_ids]),
        Class.SKIPPED: (how == Status.NOT_ASKED).any(axis=0),
        Class.ERROR: (how == Status.FAILED).any(axis=0),
        Class.TIMEOUT: (how == Status.TIMED_OUT).any(axis=0),
        Class.STALE: np.array([q in stale for q in pair.query_ids]),
        Class.BOTH_EMPTY: (a == 0) & (b == 0),
        Class.SERVING_EMPTY: a == 0,
        Class.SHADOW_EMPTY: b == 0,
        Class.EXACT: same & ~moved.any(axis=1),
        Class.TIE_ORDER: same & _among_ties(control, candidate, pair, depth, same),
        Class.TIE_CUT: _cut_in_a_tie(control, candidate, pair, depth),
        Class.REORDER: same,
        Class.EXPANSION: shared == a,
        Class.TRUNCATION: shared == b,
        Class.OVERLAP: shared > 0,
    }
    names = list(cases)
    which = np.argmax(np.stack([*cases.values(), np.ones(len(pair.query_ids), dtype=bool)]), axis=0)
    return tuple((*names, Class.DISJOINT)[at] for at in which)


def _among_ties(control: Run, candidate: Run, pair: RankPair, depth: int, same: Bools) -> Bools:
    """Whether each document that moved stayed within one tie of both lists."""
    found = np.zeros(len(same), dtype=bool)
    for row in np.flatnonzero(same & (pair.control_length > 0)):
        length = min(int(pair.control_length[row]), depth)
        to = pair.rank[row, :length]
        ties = _ties(control, candidate, pair, int(row), length)
        found[row] = all((tie == tie[to]).all() for tie in ties)
    return found


def _cut_in_a_tie(control: Run, candidate: Run, pair: RankPair, depth: int) -> Bools:
    """Whether two lists that are cut at ``depth`` differ within the tie at their ends alone."""
    full = (pair.control_length >= depth) & (pair.candidate_length >= depth)
    found = full & (pair.shared(depth) < depth)
    for row in np.flatnonzero(found):
        ties = _ties(control, candidate, pair, int(row), depth)
        ends = [int((tie < tie[-1]).sum()) for tie in ties]
        to = pair.rank[row, : ends[0]]
        found[row] = (
            ends[0] == ends[1] < depth - 1
            and ((to >= 0) & (to < ends[0])).all()
            and all((tie[: ends[0]] == tie[to]).all() for tie in ties)
        )
    return found


def _ties(control: Run, candidate: Run, pair: RankPair, row: int, length: int) -> list[Ints]:
    """Count the stretches of equal raw score of both lists, by rank, shape (length,) each."""
    found = []
    for run, at in ((control, row), (candidate, int(pair.candidate_rows[row]))):
        low = int(run.offsets[at])
        new = np.diff(run.raw_score[low : low + length]) != 0
        found.append(np.concatenate([[0], np.cumsum(new)]).astype(np.int64))
    return found


@dataclass(frozen=True, slots=True)
class ComparisonTally:
    """Outcomes of all attempted comparisons; a skipped comparison does not count as equal."""

    attempted: int
    compared: int
    errored: int
    """Error or timeout in either arm."""
    skipped: int
    """One arm not asked, or an index that moved."""
    shed: int

    def __post_init__(self) -> None:
        if self.attempted != self.compared + self.errored + self.skipped + self.shed:
            raise EvidenceError(f"{self} does not add up; a comparison was lost or counted twice")


def tally(classes: Iterable[str]) -> ComparisonTally:
    """Count classes: attempted = compared + errored + skipped + shed (method, section 3)."""
    counts = Counter(classes)
    kinds = (frozenset(Class) - UNCOMPARED, ERRORED, SKIPPED, frozenset({Class.SHED}))
    return ComparisonTally(counts.total(), *(sum(counts[one] for one in kind) for kind in kinds))


@dataclass(frozen=True, slots=True, eq=False)
class KernelResult:
    """What one kernel of agreement found."""

    defined: Bools
    """Shape (queries,): whether the query has a value."""
    values: Floats
    """Shape (defined queries,): theirs, in order."""

    @classmethod
    def ratio(cls, top: Floats | Ints, bottom: Floats) -> KernelResult:
        """``top / bottom``, undefined where ``bottom`` is 0; both of shape (queries,)."""
        defined = bottom > 0
        return cls(defined, top[defined] / bottom[defined])


def jaccard(pair: RankPair, depth: int) -> KernelResult:
    """Divide |A and B| by |A or B| of the first ``depth``, in [0, 1].

    Jaccard (1901). The union is below, never the shorter list, so that a list cut short shows.
    One empty list gives 0; two are undefined.
    """
    shared = pair.shared(depth)
    control, candidate = pair.lengths(depth)
    return KernelResult.ratio(shared, (control + candidate - shared).astype(np.float64))


def rbo(pair: RankPair, depth: int, p: float) -> KernelResult:
    """Extrapolated RBO of the lists cut at ``depth``, in [0, 1].

    Webber, Moffat and Zobel, "A similarity measure for indefinite rankings", TOIS 28 (2010),
    equation 32, which handles lists of different lengths. Ties in scores are not looked at: the
    rank is the truth. ``p`` is the chance that a reader goes on to the next rank. The value is 1
    exactly where one list starts with the other, since what a shorter list lacks is taken to agree.
    A truncation is therefore seen by Jaccard and by the class of the query, not here. One empty
    list gives 0; two are undefined.
    """
    if not 0 < p < 1:
        raise HarnessError(f"the persistence of RBO must lie between 0 and 1, not at {p}")
    lengths = pair.lengths(depth)
    short, long = np.minimum(*lengths), np.maximum(*lengths)
    rank, deepest = pair.within(depth), int(long.max(initial=0))
    rows, own = np.nonzero(rank < depth)
    met = np.maximum(rank[rows, own], own)
    new = np.bincount(rows * deepest + met, minlength=len(rank) * deepest)
    overlap = np.cumsum(new.reshape(len(rank), deepest), axis=1).astype(np.float64)  # X_1, X_2, ...
    d = np.arange(1, overlap.shape[1] + 1, dtype=np.float64)
    s = np.maximum(short, 1)[:, None]
    at_short, at_long = _at(overlap, short), _at(overlap, long)
    inside = d <= long[:, None]
    seen = np.where(inside, overlap / d, 0.0)
    assumed = np.where(inside & (d > s), at_short[:, None] * (d - s) / (s * d), 0.0)
    weights = powers(p, len(d))
    beyond = (at_long - at_short) / np.maximum(long, 1) + at_short / s[:, 0]
    found = (1 - p) / p * ((seen + assumed) * weights[1:]).sum(axis=1) + beyond * weights[long]
    defined = long > 0
    return KernelResult(defined, np.clip(found[defined], 0.0, 1.0))


def _at(overlap: Floats, depth: Ints) -> Floats:
    """X at one depth a query, 0 at depth 0; shape (queries,)."""
    padded = np.pad(overlap, ((0, 0), (1, 0)))
    return np.take_along_axis(padded, depth[:, None], axis=1)[:, 0]


BLOCK = 32_768
"""Ranks compared at a time: their arrays stay in the cache of a core."""
FEWEST = 2


def tau_ap(found: Discordance) -> KernelResult:
    """Symmetric AP correlation of what both lists show, in [-1, 1].

    Yilmaz, Aslam and Robertson, "A new rank correlation coefficient for information retrieval",
    SIGIR 2008. Of each shared document but the first, the share of those above it that the other
    list puts above it too, averaged and stretched to [-1, 1]. That depends on which list is
    gone down, so the value is the mean of both ways, as the paper has it: swapping the arms
    changes nothing. Ranks are compressed, and it is undefined below two shared documents, as tau.
    """
    n = found.shared.sum(axis=1)
    control: Ints = np.cumsum(found.shared, axis=1) - found.shared
    candidate = control - found.before + found.after
    wrong = _share(found.before, control, found.shared) + _share(
        found.after, candidate, found.shared
    )
    defined = n >= FEWEST
    return KernelResult(defined, 1 - wrong[defined] / (n[defined] - 1))


def _share(wrong: NDArray[np.int32], above: Ints, shared: Bools) -> Floats:
    """Sum ``wrong / above`` over the shared documents that have one above; shape (queries,)."""
    shares = np.divide(wrong, above, out=np.zeros(wrong.shape), where=shared & (above > 0))
    summed: Floats = shares.sum(axis=1)
    return summed


def tau(found: Discordance) -> KernelResult:
    """Tau-b over the documents that both lists show, in [-1, 1].

    Kendall (1938, 1945). Ranks are compressed to 1, 2, ... over the shared documents, so what
    only one list shows moves nothing and the value cannot leave [-1, 1]. Ranks hold no ties,
    hence tau-b is 1 - 4 discordant / (n (n - 1)). Undefined below two shared documents, and never
    0 for that.
    """
    n = found.shared.sum(axis=1)
    defined = n >= FEWEST
    pairs = n[defined] * (n[defined] - 1)
    return KernelResult(defined, 1 - 4 * found.before.sum(axis=1)[defined] / pairs)


@dataclass(frozen=True, slots=True, eq=False)
class Discordance:
    """Counts for each rank of the control, shape (queries, at most depth); 0 if not shared.

    Before and after are of shared documents only, so ranks are compressed.
    """

    shared: Bools
    """Whether the candidate shows the control's document of that rank too."""
    before: NDArray[np.int32]
    """Those that the control puts before it and the candidate after it."""
    after: NDArray[np.int32]
    """Those that the control puts after it and the candidate before it."""

    @classmethod
    def of(cls, pair: RankPair, depth: int) -> Discordance:
        """Compare every two shared documents of the first ``depth``."""
        rank = pair.within(depth)
        shared = rank < depth
        queries, width = rank.shape
        before = np.zeros(rank.shape, dtype=np.int32)
        after = np.zeros(rank.shape, dtype=np.int32)
        step = max(1, BLOCK // max(width, 1))
        for low in range(0, queries, step):
            rows = slice(low, low + step)
            _compare(rank[rows], shared[rows], before[rows], after[rows])
        return cls(shared, before, after)


def _compare(
    rank: Ints,
    shared: Bools,
    before: NDArray[np.int32],
    after: NDArray[np.int32],
) -> None:
    """Add the counts of one block; columns are made rows, which lie together."""
    if not shared.any():
        return
    place = np.ascontiguousarray(np.where(shared, rank, -1).T.astype(np.int32))
    held = np.ascontiguousarray(shared.T)
    above = np.zeros(place.shape, dtype=np.int32)
    below = np.zeros(place.shape, dtype=np.int32)
    for at in range(1, len(place)):
        wrong = (place[:at] > place[at]) & held[at]
        above[at] = wrong.sum(axis=0, dtype=np.int32)
        below[:at] += wrong
    before[:] = above.T
    after[:] = below.T


PSEUDO_DEPTH = 10
PSEUDO = f"nDCG@{PSEUDO_DEPTH}-of-serving"
"""The serving list as pseudo-judgements: agreement, not quality; asymmetric."""


def agree(
    control: Run,
    candidate: Run,
    *,
    depths: Sequence[int],
    p: float,
    shed: Collection[str] = (),
    stale: Collection[str] = (),
) -> Agreement:
    """Compare two runs of one query set, query by query (method, section 3).

    Scores are ``Jaccard@k``, ``serving_only@k`` and ``shadow_only@k`` (documents that only one arm
    shows) for each k of ``depths``, and ``RBO`` (of persistence ``p``), ``tau``, ``tauAP``,
    ``nDCG@10-of-serving`` and ``length_difference`` (of hits, uncut). RBO, both taus and the
    classes look at the deepest of ``depths``. A query without a value stands in
    ``Scores.undefined`` with its reason: its class if it was not compared or both lists are empty.
    For the taus it is ``below_two_shared``, for the nDCG ``serving_empty``. ``shed`` and ``stale``
    name the queries that a live comparison could not use.
    """
    if not depths:
        raise HarnessError("no depth to compare at; give at least one, e.g. 10")
    if not len(control):
        raise EvidenceError(f"{control.arm}: no query to compare; replay both arms first")
    pair = RankPair.of(control, candidate)
    deepest = max(depths)
    classes = classify(control, candidate, pair, depth=deepest, shed=shed, stale=stale)
    found: dict[str, tuple[KernelResult, str]] = {}
    for depth in depths:
        shared = pair.shared(depth)
        serving, shadow = pair.lengths(depth)
        found[f"Jaccard@{depth}"] = jaccard(pair, depth), Class.BOTH_EMPTY
        found[f"serving_only@{depth}"] = _count(serving - shared)
        found[f"shadow_only@{depth}"] = _count(shadow - shared)
    found["RBO"] = rbo(pair, deepest, p), Class.BOTH_EMPTY
    discordance = Discordance.of(pair, deepest)
    found["tau"] = tau(discordance), "below_two_shared"
    found["tauAP"] = tau_ap(discordance), "below_two_shared"
    found[PSEUDO] = pseudo_ndcg(pair, PSEUDO_DEPTH), Class.SERVING_EMPTY
    found["length_difference"] = _count(pair.candidate_length - pair.control_length)
    reasons = {
        query_id: str(name)
        for query_id, name in zip(pair.query_ids, classes, strict=True)
        if name in UNCOMPARED or name is Class.BOTH_EMPTY
    }
    return Agreement(
        pair.query_ids,
        tuple(str(name) for name in classes),
        {
            name: _scores(name, pair.query_ids, partial, why, reasons)
            for name, (partial, why) in found.items()
        },
        depth=deepest,
    )


def _count(values: Ints) -> tuple[KernelResult, str]:
    return KernelResult(np.ones(len(values), dtype=bool), values.astype(np.float64)), ""


def _scores(
    name: str, query_ids: Sequence[str], partial: KernelResult, why: str, reasons: Mapping[str, str]
) -> Scores:
    """Turn a kernel's values into scores, less the queries that have a reason to be left out."""
    has = partial.defined.tolist()
    told = [reasons.get(q, "" if own else str(why)) for q, own in zip(query_ids, has, strict=True)]
    undefined: dict[str, list[str]] = {}
    for query_id, reason in zip(query_ids, told, strict=True):
        if reason:
            undefined.setdefault(reason, []).append(query_id)
    keep = np.array([not reason for reason in told], dtype=bool)
    return Scores(
        name,
        tuple(compress(query_ids, keep.tolist())),
        partial.values[keep[partial.defined]],
        {reason: tuple(ids) for reason, ids in undefined.items()},
    )


def pseudo_ndcg(pair: RankPair, depth: int) -> KernelResult:
    """Score the candidate, the control's first ``depth`` gaining depth, ..., 2, 1; in [0, 1].

    It measures agreement, not quality: a candidate that is better than the control scores
    below 1. It is asymmetric: swapping the arms changes it. The discount is log2(rank + 1)
    (Järvelin and Kekäläinen 2002). An empty candidate gives 0; an empty control judges nothing
    and leaves it undefined.
    """
    rank = pair.within(depth)
    control, _ = pair.lengths(depth)
    own = np.arange(rank.shape[1])
    gain = (depth - own).astype(np.float64)
    shown = rank < depth
    gained = np.where(shown, gain / log2(np.where(shown, rank, 0) + 2), 0.0).sum(axis=1)
    best = np.where(own < control[:, None], gain / log2(own + 2), 0.0).sum(axis=1)
    return KernelResult.ratio(gained, best)
