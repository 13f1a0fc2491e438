"""Missing judgements of two runs: as columns, as pools, and as random samples."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, wraps
from hashlib import blake2b
from itertools import compress
from typing import NamedTuple, TypeVar
from weakref import WeakKeyDictionary, ref

import numpy as np
from numpy.typing import NDArray

from harness.core.elementary import expm1, log1p
from harness.core.errors import EvidenceError, UnknownName
from harness.core.evidence import Sample
from harness.core.records import Qrels
from harness.core.run import Run
from harness.measures.columns import EncodedQrels
from harness.measures.completion_bounds import Bounding, Case, Hits
from harness.measures.name import parse, span_of_difference
from harness.measures.quality import kept, rests_on_judging_only
from harness.stats.bounded import ValueRange

T = TypeVar("T")
K = TypeVar("K")


def bounding(measure: str, qrels: Qrels) -> Bounding:
    """Read a measure, on the scale of all the judgements."""
    return Bounding.of(measure, {g for docs in qrels.grades.values() for g in docs.values()})


def cases(
    control: Run, candidate: Run, qrels: Qrels, query_ids: Sequence[str], depth: int | None
) -> Iterator[tuple[str, Case]]:
    """Yield both lists of each query, at most ``depth`` documents of each arm."""
    for query_id in query_ids:
        if any(query_id not in of for of in (qrels.grades, control.positions, candidate.positions)):
            raise EvidenceError(
                f"query {query_id} was not judged, or not asked of both {control.arm} and"
                f" {candidate.arm}; score and compare the arms once more"
            )
    here, there = (run.rankings(query_ids, depth) for run in (control, candidate))
    for query_id in query_ids:
        yield query_id, Case(here[query_id], there[query_id], qrels.grades[query_id])


def narrowing(
    control: Run, candidate: Run, qrels: Qrels, measure: str, query_ids: Sequence[str]
) -> Mapping[tuple[str, str], float]:
    """How much narrower the bounds of the mean difference get by judging one pair more.

    By query and document, the mean over the lowest and the highest grade, for pairs that
    narrow them at all. That a document is worth judging for what it moves, and not for where it
    ranks, is of Carterette, Allan and Sitaraman (SIGIR 2006).
    """
    wanted = bounding(measure, qrels)
    ends = wanted.scale[0], wanted.scale[-1]
    found: dict[tuple[str, str], float] = {}
    for query_id, case in cases(control, candidate, qrels, query_ids, wanted.asked.cutoff):
        docs = wanted.unjudged(case)
        one_more = (
            case._replace(grades={**case.grades, doc_id: grade})
            for grade in ends
            for doc_id in docs
        )
        effects = wanted.of_cases([case, *one_more])
        width, *left = (effects.best - effects.worst).tolist()
        for doc_id, one, other in zip(docs, left[: len(docs)], left[len(docs) :], strict=True):
            narrower = width - (one + other) / 2
            if narrower > ROUNDING:
                found[query_id, doc_id] = narrower / len(query_ids)
    return found


ROUNDING = 1e-12
"""Narrowing up to this is rounding."""


Floats = NDArray[np.float64]
Rows = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class MissingJudgements:
    """What the missing judgements leave open, candidate - control."""

    measure: str
    query_ids: tuple[str, ...]
    difference: Floats
    """Shape (queries,): as judged, with every unjudged document irrelevant."""
    worst: Floats
    """Shape (queries,): the smallest difference over all completions."""
    best: Floats
    """Shape (queries,): the largest."""
    query: Rows
    """Shape (hits,): position in ``query_ids`` of each unjudged document that an arm shows."""
    docs: Rows
    """Shape (hits,): codes into ``vocabulary``."""
    vocabulary: tuple[str, ...]
    loss: Floats
    """Shape (hits,): what the hit alone takes from the difference at most; 0 or above."""
    gain: Floats
    """Shape (hits,): what it adds at most. The losses of some hits together are at most their sum,
    and so are the gains."""
    exact: bool = True
    """Whether some completion reaches the worst and the best; else they are outer bounds."""

    @property
    def doc_ids(self) -> tuple[str, ...]:
        """Document of each of these hits."""
        return tuple(map(self.vocabulary.__getitem__, self.docs.tolist()))

    @property
    def pairs(self) -> tuple[tuple[str, str], ...]:
        """Query and document of each of these hits."""
        queries = map(self.query_ids.__getitem__, self.query.tolist())
        return tuple(zip(queries, self.doc_ids, strict=True))

    @property
    def counts(self) -> Rows:
        """Unjudged documents by query, shape (queries,)."""
        return np.bincount(self.query, minlength=len(self.query_ids))

    @property
    def weight(self) -> Floats:
        """What a hit can move the difference either way, shape (hits,)."""
        return np.maximum(self.loss, self.gain)

    @property
    def can_be_drawn(self) -> bool:
        """Whether single hits have a known largest effect, so that a sample says something."""
        return not len(self.query) or bool(np.isfinite(self.loss).all())

    def of(self, query_ids: Sequence[str]) -> "MissingJudgements":
        """Keep some queries, in this order."""
        if self.query_ids == tuple(query_ids):
            return self
        place = {query_id: at for at, query_id in enumerate(self.query_ids)}
        try:
            rows = np.array([place[query_id] for query_id in query_ids], dtype=np.int64)
        except KeyError as exc:
            raise EvidenceError(
                f"query {exc.args[0]} has no {self.measure}: it was not asked of both arms, or no"
                " document answers it; score and compare the arms once more"
            ) from exc
        now = np.full(len(self.query_ids), -1)
        now[rows] = np.arange(len(rows))
        kept = np.flatnonzero(now[self.query] >= 0)
        return MissingJudgements(
            self.measure,
            tuple(query_ids),
            self.difference[rows],
            self.worst[rows],
            self.best[rows],
            now[self.query[kept]],
            self.docs[kept],
            self.vocabulary,
            self.loss[kept],
            self.gain[kept],
            self.exact,
        )


def judged_by_relevance(measure: str) -> bool:
    """Return whether a missing judgement can move a measure: not ``Judged``, nor an agreement."""
    try:
        return not rests_on_judging_only(parse(measure))
    except UnknownName:
        return False


def _once(make: Callable[[Run, Run, Qrels, K], T]) -> Callable[[Run, Run, Qrels, K], T]:
    """Make a value of the same runs and judgements once, as long as the runs are there."""
    kept: WeakKeyDictionary[Run, dict[tuple[int, int, K], tuple[ref[Run], Qrels, T]]]
    kept = WeakKeyDictionary()

    @wraps(make)
    def made(control: Run, candidate: Run, qrels: Qrels, of: K) -> T:
        known = kept.setdefault(control, {})
        key = id(candidate), id(qrels), of
        if key not in known or known[key][0]() is not candidate:
            found = make(control, candidate, qrels, of)
            known[key] = ref(candidate), qrels, found  # judgements are kept, so that their id is
        return known[key][2]

    return made


@_once
def missing(control: Run, candidate: Run, qrels: Qrels, measure: str) -> MissingJudgements:
    """Find what is not judged of all queries with a value.

    A measure without known bounds may be anything where an unjudged document is shown.
    """
    try:
        wanted = bounding(measure, qrels)
    except UnknownName:
        return _anything(control, candidate, qrels, measure)
    cutoff, exact = wanted.asked.cutoff, wanted.asked.name != "AP"
    found = _shown(control, candidate, qrels, cutoff)
    hits = found.hits(wanted)
    ids = kept(found.query_ids, hits.answerable)
    if exact:
        effects = wanted.effects(hits)
    else:
        each = cases(control, candidate, qrels, ids, cutoff)
        effects = wanted.of_cases([case for _, case in each]).among(hits)
    every = MissingJudgements(
        measure,
        found.query_ids,
        effects.difference,
        effects.worst,
        effects.best,
        hits.query[hits.open],
        found.docs[hits.open],
        found.vocabulary,
        effects.loss,
        effects.gain,
        exact,
    )
    return every.of(ids)


def _anything(control: Run, candidate: Run, qrels: Qrels, measure: str) -> MissingJudgements:
    """Leave the whole span open where a document is not judged."""
    span, cutoff = span_of_difference(measure), parse(measure).params.get("cutoff")
    if span is None:
        raise EvidenceError(f"{measure} has no known least and greatest value; judge by another")
    found = _shown(control, candidate, qrels, cutoff)
    open_ = found.open
    has = np.bincount(found.query[open_], minlength=len(found.query_ids)) > 0
    unknown = np.full(len(open_), np.inf)
    return MissingJudgements(
        measure,
        found.query_ids,
        np.zeros(len(has)),
        np.where(has, span.least, 0.0),
        np.where(has, span.most, 0.0),
        found.query[open_],
        found.docs[open_],
        found.vocabulary,
        unknown,
        unknown,
        exact=False,
    )


UNJUDGED = np.iinfo(np.int64).min


@dataclass(frozen=True, eq=False)
class _Shown:
    """Every document that one of two arms shows within the cutoff, once a query."""

    query_ids: tuple[str, ...]
    query: Rows
    docs: Rows
    """Codes into ``vocabulary``, as ``query`` of shape (shown,)."""
    vocabulary: tuple[str, ...]
    control: Rows
    """Rank that the control gives it, from 1; 0 where it does not show it."""
    candidate: Rows
    grades: Rows
    """``UNJUDGED`` without a judgement."""
    encoded: EncodedQrels
    judged_rows: Rows
    """Shape (queries,): position of each among the judged ones."""

    @cached_property
    def open(self) -> Rows:
        """Places of what is not judged."""
        return np.flatnonzero(self.grades == UNJUDGED)

    def hits(self, wanted: Bounding) -> Hits:
        """Return gains in the place of grades."""
        gains = self._gains(self.grades, wanted)
        judged = self._gains(self.encoded.grades.astype(np.int64), wanted)
        row = np.full(len(self.encoded), -1)
        row[self.judged_rows] = np.arange(len(self.query_ids))
        of = row[self.encoded.rows]
        mine = of >= 0
        return Hits(
            len(self.query_ids),
            self.query,
            self.control,
            self.candidate,
            gains,
            self.open,
            of[mine],
            judged[mine],
        )

    @staticmethod
    def _gains(grades: Rows, wanted: Bounding) -> Floats:
        known = np.unique(grades)
        each = [0 if grade == UNJUDGED else wanted.gain(int(grade)) for grade in known.tolist()]
        return np.array(each, dtype=np.float64)[np.searchsorted(known, grades)]


@_once
def _shown(control: Run, candidate: Run, qrels: Qrels, cutoff: int | None) -> _Shown:
    """Merge what two runs show of each query that both were asked and that is judged."""
    encoded = EncodedQrels.of(qrels)
    both = candidate.positions
    ids = tuple(q for q in control.query_ids if q in both and q in encoded.position)
    words = control.vocabulary
    if candidate.vocabulary != words:
        words = tuple(sorted({*words, *candidate.vocabulary}))
    code = {doc_id: at for at, doc_id in enumerate(words)}
    columns = (hits_within(run, ids, code, cutoff) for run in (control, candidate))
    pairs = ((query * len(words) + docs, rank) for query, docs, rank in columns)
    keys, rank = zip(*pairs, strict=True)
    shown, place = np.unique(np.concatenate(keys), return_inverse=True)
    ranks = [np.zeros(len(shown), dtype=np.int64) for _ in keys]
    ranks[0][place[: len(keys[0])]], ranks[1][place[len(keys[0]) :]] = rank
    query, docs = np.divmod(shown, max(len(words), 1))
    rows = np.array([encoded.position[query_id] for query_id in ids], dtype=np.int64)
    grades = np.full(len(shown), UNJUDGED)
    if len(shown):
        known, pair = encoded.lookup.find(rows[query], encoded.translation(words)[docs])
        grades[known] = encoded.grades[pair]
    return _Shown(ids, query, docs, words, ranks[0], ranks[1], grades, encoded, rows)


def hits_within(
    run: Run, ids: Sequence[str], code: dict[str, int], cutoff: int | None
) -> tuple[Rows, Rows, Rows]:
    """Position of the query, code of the document and rank from 1 of each hit in the cutoff."""
    at = np.array([run.positions[query_id] for query_id in ids], dtype=np.int64)
    first = run.offsets[at]
    length = run.offsets[at + 1] - first if len(at) else first
    length = length if cutoff is None else np.minimum(length, cutoff)
    query = np.repeat(np.arange(len(at)), length)
    place = np.arange(len(query)) - np.repeat(np.cumsum(length) - length, length)
    translation = np.array([code[doc_id] for doc_id in run.vocabulary], dtype=np.int64)
    docs = translation[run.docs[np.repeat(first, length) + place]] if len(query) else query
    return query, docs, place + 1


HALVINGS = 80
"""Steps of a bisection between the smallest and the largest rate that is sensible."""


class Draw(NamedTuple):
    """Which hits were drawn, shape (hits,) each."""

    chance: Floats
    taken: NDArray[np.bool_]


class SampledQueries(NamedTuple):
    """What a sample says of each query."""

    certain: Floats
    """Shape (queries,): change of the difference where all that can move it was judged."""
    change: Floats
    """Shape (queries,): of the others, D / P; its mean is that of all their changes."""
    span: ValueRange
    """The least and the greatest that ``change`` can be; both 0 where all is certain."""
    drawn: int
    relevant: int
    """Drawn hits that are relevant."""
    left: tuple[tuple[str, str], ...]
    """Pairs without a grade yet; the sample says nothing while there are any."""


def draw(missing: MissingJudgements, rate: float, seed: int) -> Draw:
    """Draw hits by digests of seed and pair; what a lower rate draws, a higher one draws too."""
    chance = np.minimum(1.0, rate * missing.weight)
    taken, pairs = np.zeros(len(chance), dtype=bool), missing.pairs
    for at in np.flatnonzero(chance > 0).tolist():
        query_id, doc_id = pairs[at]
        text = f"{seed}\0{query_id}\0{doc_id}".encode()
        coin = int.from_bytes(blake2b(text, digest_size=8).digest()) / 2.0**64
        taken[at] = coin < chance[at]
    return Draw(chance, taken)


def rate_of(missing: MissingJudgements, size: int) -> float:
    """Return the rate at which ``size`` hits are drawn on average, or all that can matter."""
    weight = missing.weight[missing.weight > 0]
    if not len(weight):
        return 1.0
    most = float(1 / weight.min())
    if size >= len(weight):
        return most
    return _lowest(lambda rate: bool(np.minimum(1, rate * weight).sum() >= size), most)


def _lowest(fits: Callable[[float], bool], most: float) -> float:
    """Return the lowest rate that fits, up to ``most``, which does."""
    low = 0.0
    for _ in range(HALVINGS):
        rate = (low + most) / 2
        low, most = (low, rate) if fits(rate) else (rate, most)
    return most


def expected_size(missing: MissingJudgements, rate: float) -> int:
    """Count the hits that are drawn at this rate on average."""
    return int(np.ceil(np.minimum(1.0, rate * missing.weight).sum()))


def span_at(missing: MissingJudgements, rate: float) -> ValueRange:
    """Return the least and the greatest change of a query that is not known for certain."""
    open_ = ~_certain(missing, np.minimum(1.0, rate * missing.weight))
    least, most = (
        _reach((end[open_]).max(initial=0.0), rate)
        for end in (missing.difference - missing.worst, missing.best - missing.difference)
    )
    return ValueRange(-least, most)


def _reach(whole: float, rate: float) -> float:
    """Return the most that one query can count for; it grows with what it can lose at all."""
    return float(whole / -math.expm1(-rate * whole)) if whole > 0 else 0.0


def rate_within(missing: MissingJudgements, down: float, up: float) -> float | None:
    """Return the lowest rate at which no query counts for more than this; None if none is so."""
    most = rate_of(missing, len(missing.query))

    def fits(rate: float) -> bool:
        span = span_at(missing, rate)
        return -span.least <= down and span.most <= up

    return _lowest(fits, most) if fits(most) else None


def judge(
    missing: MissingJudgements, runs: tuple[Run, Run], qrels: Qrels, sample: Sample
) -> SampledQueries:
    """Return what the judgements of a sample say of the queries of ``missing``."""
    wanted, grades = bounding(missing.measure, qrels), sample.grades
    drawn = draw(missing, sample.rate, sample.seed)
    pairs, known = missing.pairs, np.full(len(missing.query), -1.0)
    for at, (query_id, doc_id) in enumerate(pairs):
        if (grade := grades.get(query_id, {}).get(doc_id)) is not None:
            known[at] = wanted.gain(grade)
    relevant = known > 0
    seen = seen_by(missing, drawn, relevant)
    wants = (drawn.taken | seen[missing.query]) & (known < 0)
    left = tuple(compress(pairs, wants.tolist()))
    moved = np.zeros(len(missing.query_ids))
    if not left:
        ids = kept(missing.query_ids, seen)
        each = cases(*runs, qrels, ids, wanted.asked.cutoff)
        for row, (query_id, case) in zip(np.flatnonzero(seen), each, strict=True):
            judged = case._replace(grades={**grades[query_id], **case.grades})
            before, after = wanted.of_cases([case, judged]).difference
            moved[row] = after - before
    found = weighed(missing, drawn, relevant, moved, sample.rate)
    return found._replace(left=left)


def seen_by(
    missing: MissingJudgements, drawn: Draw, relevant: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """Find the queries of which a relevant hit was drawn, shape (queries,)."""
    seen = np.zeros(len(missing.query_ids), dtype=bool)
    seen[missing.query[drawn.taken & relevant]] = True
    return seen


def weighed(
    missing: MissingJudgements, drawn: Draw, relevant: NDArray[np.bool_], moved: Floats, rate: float
) -> SampledQueries:
    """Weigh the changes of a whole sample; arrays alone, for simulations too.

    ``relevant`` has shape (hits,): whether each is, where its query was judged whole. ``moved`` has
    shape (queries,): what all judgements change the difference by. Both are looked at only where
    the sample shows them (``seen_by``).
    """
    seen = seen_by(missing, drawn, relevant)
    unseen, certain = np.zeros(len(seen)), _certain(missing, drawn.chance)
    np.add.at(unseen, missing.query[relevant], log1p(-drawn.chance[relevant]))  # of none drawn
    change = np.zeros(len(seen))
    np.divide(moved, -expm1(unseen), out=change, where=seen)
    return SampledQueries(
        np.where(certain, change, 0.0),
        np.where(certain, 0.0, change),
        span_at(missing, rate),
        int(drawn.taken.sum()),
        int((drawn.taken & relevant).sum()),
        (),
    )


def _certain(missing: MissingJudgements, chance: Floats) -> NDArray[np.bool_]:
    """Find queries of which all that can move the difference is drawn for sure."""
    unsure = np.zeros(len(missing.query_ids), dtype=bool)
    unsure[missing.query[(chance < 1) & (missing.weight > 0)]] = True
    return ~unsure
