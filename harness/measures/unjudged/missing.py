"""Missing judgements of two runs, as columns: what they leave open of each difference.

A completion gives a grade of the scale to each unjudged document that an arm shows within the
cutoff. ``Bounding`` says the same of one query at a time; a test compares the two.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from weakref import WeakKeyDictionary, ref

import numpy as np
from numpy.typing import NDArray

from harness.core.errors import EvidenceError, UnknownName
from harness.core.qrels import Qrels
from harness.core.run import Run
from harness.measures.columnar.encoded import EncodedQrels
from harness.measures.name import parse
from harness.measures.quality import rests_on_judging_only
from harness.measures.spans import span_of_difference
from harness.measures.unjudged.bounds import Bounding
from harness.measures.unjudged.completed import Hits, Ratios, effects_of_rr
from harness.measures.unjudged.runs import bounding, cases

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Missing:
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
    doc_ids: tuple[str, ...]
    """Of each of these hits."""
    loss: Floats
    """Shape (hits,): what the hit alone takes from the difference at most; 0 or above."""
    gain: Floats
    """Shape (hits,): what it adds at most. The losses of some hits together are at most their sum,
    and so are the gains."""
    exact: bool = True
    """Whether some completion reaches the worst and the best; else they are outer bounds."""

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

    def of(self, query_ids: Sequence[str]) -> Missing:
        """Keep some queries, in this order.

        Raises:
            EvidenceError: a query was not asked, or has no value.
        """
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
        return Missing(
            self.measure,
            tuple(query_ids),
            self.difference[rows],
            self.worst[rows],
            self.best[rows],
            now[self.query[kept]],
            tuple(self.doc_ids[at] for at in kept.tolist()),
            self.loss[kept],
            self.gain[kept],
            self.exact,
        )


def judged_by_relevance(measure: str) -> bool:
    """Tell whether a missing judgement can move a measure: not ``Judged``, nor an agreement."""
    try:
        return not rests_on_judging_only(parse(measure))
    except UnknownName:
        return False


def missing(control: Run, candidate: Run, qrels: Qrels, measure: str) -> Missing:
    """Find what is not judged of all queries with a value; computed once for the same runs.

    A measure without known bounds may be anything where an unjudged document is shown.
    """
    kept = _kept.setdefault(control, {})
    key = id(candidate), id(qrels), measure
    if key in kept:
        one, judged, found = kept[key]
        if one() is candidate and judged() is qrels:
            return found
    found = _missing(control, candidate, qrels, measure)
    kept[key] = ref(candidate), ref(qrels), found
    return found


_kept: WeakKeyDictionary[Run, dict[tuple[int, int, str], tuple[ref[Run], ref[Qrels], Missing]]] = (
    WeakKeyDictionary()
)


def _missing(control: Run, candidate: Run, qrels: Qrels, measure: str) -> Missing:
    try:
        wanted = bounding(measure, qrels)
    except UnknownName:
        return _anything(control, candidate, qrels, measure)
    found = _Shown.of(control, candidate, qrels, wanted.asked.cutoff)
    if wanted.asked.name == "AP":
        return _one_by_one(found, control, candidate, qrels, wanted, measure)
    hits = found.hits(wanted)
    if wanted.asked.name == "RR":
        effects, defined = effects_of_rr(hits, wanted.gain(wanted.scale[-1]) > 0), hits.answerable
    else:
        ratios = Ratios.of(hits, wanted)
        effects, defined = ratios.effects(), ratios.defined
    every = Missing(
        measure,
        found.query_ids,
        effects.difference,
        effects.worst,
        effects.best,
        hits.query[hits.open],
        found.named(hits.open),
        effects.loss,
        effects.gain,
    )
    return every.of(_those(found.query_ids, defined))


def _anything(control: Run, candidate: Run, qrels: Qrels, measure: str) -> Missing:
    """Leave the whole span open where a document is not judged."""
    span, cutoff = span_of_difference(measure), parse(measure).params.get("cutoff")
    if span is None:
        raise EvidenceError(f"{measure} has no known least and greatest value; judge by another")
    found = _Shown.of(control, candidate, qrels, cutoff)
    open_ = np.flatnonzero(found.grades == UNJUDGED)
    has = np.bincount(found.query[open_], minlength=len(found.query_ids)) > 0
    unknown = np.full(len(open_), np.inf)
    return Missing(
        measure,
        found.query_ids,
        np.zeros(len(has)),
        np.where(has, span.least, 0.0),
        np.where(has, span.most, 0.0),
        found.query[open_],
        found.named(open_),
        unknown,
        unknown,
        exact=False,
    )


def _one_by_one(  # noqa: PLR0917  all of it is needed
    found: _Shown, control: Run, candidate: Run, qrels: Qrels, wanted: Bounding, measure: str
) -> Missing:
    """Bound AP, which is quadratic in the grades; each hit may move a query by all that is open."""
    each = dict(cases(control, candidate, qrels, found.query_ids, wanted.asked.cutoff))
    ids = tuple(query_id for query_id, case in each.items() if wanted.defined(case))
    spans = np.array([wanted.difference(each[q]) for q in ids], dtype=np.float64).reshape(-1, 2)
    judged = np.array([wanted.as_judged(each[q]) for q in ids], dtype=np.float64)
    place = np.full(len(found.query_ids), -1)
    place[[found.place[query_id] for query_id in ids]] = np.arange(len(ids))
    open_ = np.flatnonzero((found.grades == UNJUDGED) & (place[found.query] >= 0))
    query = place[found.query[open_]]
    loss, gain = (judged - spans[:, 0])[query], (spans[:, 1] - judged)[query]
    docs = found.named(open_)
    return Missing(
        measure, ids, judged, spans[:, 0], spans[:, 1], query, docs, loss, gain, exact=False
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

    @classmethod
    def of(cls, control: Run, candidate: Run, qrels: Qrels, cutoff: int | None) -> _Shown:
        encoded = EncodedQrels.of(qrels)
        both = candidate.positions
        ids = tuple(q for q in control.query_ids if q in both and q in encoded.position)
        words = control.vocabulary
        if candidate.vocabulary != words:
            words = tuple(sorted({*words, *candidate.vocabulary}))
        code = {doc_id: at for at, doc_id in enumerate(words)}
        columns = [_flat(run, ids, code, cutoff) for run in (control, candidate)]
        keys = [query * len(words) + docs for query, docs, _ in columns]
        shown, place = np.unique(np.concatenate(keys), return_inverse=True)
        ranks = [np.zeros(len(shown), dtype=np.int64) for _ in columns]
        ranks[0][place[: len(keys[0])]] = columns[0][2]
        ranks[1][place[len(keys[0]) :]] = columns[1][2]
        query, docs = np.divmod(shown, max(len(words), 1))
        rows = np.array([encoded.position[query_id] for query_id in ids], dtype=np.int64)
        grades = np.full(len(shown), UNJUDGED)
        if len(shown):
            known, pair = encoded.lookup.find(rows[query], encoded.translation(words)[docs])
            grades[known] = encoded.grades[pair]
        return cls(ids, query, docs, words, ranks[0], ranks[1], grades, encoded, rows)

    @cached_property
    def place(self) -> dict[str, int]:
        """Position of each query."""
        return {query_id: at for at, query_id in enumerate(self.query_ids)}

    def named(self, at: Rows) -> tuple[str, ...]:
        """Ids of some of the documents."""
        return tuple(self.vocabulary[doc] for doc in self.docs[at].tolist())

    def hits(self, wanted: Bounding) -> Hits:
        """Give gains in the place of grades."""
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
            np.flatnonzero(self.grades == UNJUDGED),
            of[mine],
            judged[mine],
        )

    @staticmethod
    def _gains(grades: Rows, wanted: Bounding) -> Floats:
        known, at = np.unique(grades, return_inverse=True)
        each = [0 if grade == UNJUDGED else wanted.gain(int(grade)) for grade in known.tolist()]
        return np.array(each, dtype=np.float64)[at] if len(known) else np.zeros(0)


def _flat(
    run: Run, ids: Sequence[str], code: dict[str, int], cutoff: int | None
) -> tuple[Rows, Rows, Rows]:
    """Position of the query, code of the document and rank of each hit within the cutoff."""
    at = np.array([run.positions[query_id] for query_id in ids], dtype=np.int64)
    first = run.offsets[at]
    length = run.offsets[at + 1] - first if len(at) else first
    length = length if cutoff is None else np.minimum(length, cutoff)
    query = np.repeat(np.arange(len(at)), length)
    place = np.arange(len(query)) - np.repeat(np.cumsum(length) - length, length)
    translation = np.array([code[doc_id] for doc_id in run.vocabulary], dtype=np.int64)
    docs = translation[run.docs[np.repeat(first, length) + place]] if len(query) else query
    return query, docs, place + 1


def _those(query_ids: Sequence[str], kept: NDArray[np.bool_]) -> list[str]:
    return [query_id for query_id, keep in zip(query_ids, kept.tolist(), strict=True) if keep]
