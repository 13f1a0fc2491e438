"""Guards of a name: how much vectors may say where a query is one, and which queries are names.

    python3 run.py python benchmarks/names.py FOLDER [FOLDER ...] --out out/names

Each FOLDER is a collection in BEIR layout whose judgements lie in ``qrels/test.tsv``; queries whose
ids begin with ``id:`` look for a thing by its name. Each guard was named before it was measured:
what the vectors count for a name, whether the joined names of titles (``to_frame``) are
recognised when they are typed as words (``to frame``), and whether such words are then searched as
the joined name. Prints nDCG@10 of each guard on the names less that of unstemmed words, then less
that of today's hybrid, and over all queries less that of today's hybrid.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from benchmarks.fusion import pooled
from benchmarks.legs import Collection, Scores
from engines.lexical.title_names import joined, title_names
from engines.lexical.typed import exact_clauses
from engines.ranking.convex import combine
from engines.stacks.text.blend import BlendSearcher
from harness import Inference, compare
from harness.core.engine import Searcher
from harness.core.qrels import Qrels
from harness.core.scores import Estimate

MEASURE = "nDCG@10"
SURE = Inference(confidence=0.95, resamples=10_000, seed=20261124)
DEPTH, SHARE, TODAY = 100, 0.7, 0.2
NORMAL = 1.96
"""Standard errors of an interval's half width."""
SHARES = (0.2, 0.1, 0.05, 0.0)
NAME = "id:"
LESS = "names less words", "names less today", "all less today"
Run = Mapping[str, Mapping[str, float]]


@dataclass(frozen=True, slots=True)
class Legs:
    """Scores of one query by each leg."""

    stems: Scores
    plain: Scores
    joined: Scores
    """Unstemmed words, the query written as one joined name."""
    near: Scores
    cosines: Scores
    """Of everything that words found."""
    one: bool
    """Whether the query is one name, as today's hybrid has it."""
    told: bool
    """Whether several words are a joined name of a title."""

    def by(self, guard: Guard) -> Scores:
        """Rank as a guard has it."""
        named = self.one or (guard.titles and self.told)
        words = self.plain if named else self.stems
        if guard.joins and named and not self.one:
            words = self.joined
        near = self.near | {d: self.cosines[d] for d in words if d in self.cosines}
        share = guard.share if named else SHARE
        hits = combine({"words": words, "near": near}, {"words": 1 - share, "near": share}, DEPTH)
        found = {hit.doc_id: -float(rank) for rank, hit in enumerate(hits)}
        if named and share == 0:
            rest = (d for d in sorted(near, key=lambda d: (-near[d], d)) if d not in found)
            found |= {d: -float(rank) for rank, d in enumerate(rest, start=len(found))}
        return found


@dataclass(frozen=True, slots=True)
class Guard:
    """What is done with a name."""

    share: float
    titles: bool
    joins: bool

    def __str__(self) -> str:
        said = "one word" if not self.titles else "names of titles too"
        return f"{said}{', joined' if self.joins else ''}; share {self.share:g}"


GUARDS = tuple(
    Guard(share, titles, joins)
    for titles, joins in ((False, False), (True, False), (True, True))
    for share in SHARES
)


def legs(collection: Collection) -> Mapping[str, Legs]:
    """Ask every leg for every judged query."""
    known = title_names(one.title for one in collection.documents)
    found = {}
    with collection.opened("hybrid") as both:
        assert isinstance(both, BlendSearcher)  # noqa: S101  the arm's file says so

        def scores(searcher: Searcher, text: str) -> Scores:
            return {hit.doc_id: hit.raw_score for hit in searcher.search(text, DEPTH).hits}

        for q, text in collection.queries.items():
            wanted = exact_clauses(text)
            name = joined(wanted, known)
            stems, plain = scores(both.words, text), scores(both.names, text)
            whole = scores(both.names, name) if name else {}
            vector = both.vectors.query_vector(text)
            store = both.vectors.store
            near = {} if vector is None else dict(store.nearest(vector, DEPTH))
            every = sorted({*stems, *plain, *whole})
            cosines = {} if vector is None else store.cosines(vector, every)
            one = len(wanted) == 1 or any(c.quoted for c in wanted)
            found[q] = Legs(stems, plain, whole, near, cosines, one, bool(name))
    return found


@dataclass(frozen=True, eq=False)
class Measured:
    """A collection with the legs of its queries, and the runs that a guard is compared with."""

    collection: Collection
    legs: Mapping[str, Legs]

    @cached_property
    def names(self) -> Qrels:
        """Judgements of the queries that look for a thing by its name."""
        grades = self.collection.qrels.grades
        return Qrels({q: grades[q] for q in self.legs if q.startswith(NAME)})

    def run(self, guard: Guard) -> Run:
        """Rank every query as a guard has it."""
        return {q: of.by(guard) for q, of in self.legs.items()}

    @cached_property
    def words(self) -> Run:
        """Rank by unstemmed words."""
        legs = self.legs.items()
        return {q: {d: -float(at) for at, d in enumerate(of.plain)} for q, of in legs}

    def less(self, guard: Guard, before: Run, qrels: Qrels) -> Estimate:
        """Compare a guard with another run over some of the queries."""
        first, second = ({q: r[q] for q in qrels.grades} for r in (before, self.run(guard)))
        return compare(first, second, qrels, MEASURE, sure=SURE).estimate


def lines(collections: Sequence[Collection]) -> Iterator[str]:
    """Yield what the queries are, and a row for each guard."""
    every = [Measured(one, legs(one)) for one in collections]
    for one in every:
        told = sum(of.told for of in one.legs.values())
        yield (
            f"{one.collection.name}: {len(one.collection.documents)} documents, {len(one.legs)}"
            f" queries; {len(one.names.grades)} look for a name, {told} are several words of one"
        )
    heads = [f"{one.collection.name}: {less}" for one in every for less in LESS]
    yield "\n| guard | mean: " + " | mean: ".join([*LESS, *heads]) + " |"
    yield "|---|" + "---|" * (len(heads) + len(LESS))
    for guard in GUARDS:
        found = [
            (
                one.less(guard, one.words, one.names),
                one.less(guard, one.run(GUARDS[0]), one.names),
                one.less(guard, one.run(GUARDS[0]), one.collection.qrels),
            )
            for one in every
        ]
        cells = [_cell(*_mean(column)) for column in zip(*found, strict=True)]
        cells += [_cell(of.value, of.low, of.high) for row in found for of in row]
        yield f"| {guard} | " + " | ".join(cells) + " |"
    yield ""


def _mean(column: Sequence[Estimate]) -> tuple[float, float, float]:
    errors = [(of.high - of.low) / (2 * NORMAL) for of in column]
    return pooled([of.value for of in column], errors)


def _cell(value: float, low: float, high: float) -> str:
    return f"{value:+.4f} [{low:+.4f}, {high:+.4f}]"


def main() -> None:
    """Measure every folder and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    if len(args.folders) < 2:  # noqa: PLR2004  a mean over one collection has no interval
        parser.error("give two collections or more")
    text = "\n".join(lines([Collection(one, "test", args.out) for one in args.folders]))
    (args.out / "names.md").write_text(text, encoding="utf-8")
    sys.stdout.write(text)


if __name__ == "__main__":
    main()
