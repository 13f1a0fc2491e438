"""Known results of the canary: formulas of quality and agreement, and query outcomes.

The right values follow the definitions (method, sections 2 and 3) and share no code with the
kernels.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping

from harness.agreement.agree import agree
from harness.core.engine import Answer, Hit, Manifest
from harness.core.printable import many
from harness.core.qrels import Qrels
from harness.core.records import Query
from harness.core.run import Row, Run, Status
from harness.core.scores import Scores
from harness.measures.quality import score
from harness.replay.ask import observe

SAME = 1e-9
RANKS = (1, 2, 3, 10, 11, 50, 51)
"""Where the one relevant document of each query stands; cut-offs lie between them."""
LISTED = 60
SHALLOW, DEEP = 10, 50
FORMULAS: Mapping[str, Callable[[int], float]] = {
    f"nDCG@{SHALLOW}": lambda rank: 1 / math.log2(rank + 1) if rank <= SHALLOW else 0.0,
    f"RR@{SHALLOW}": lambda rank: 1 / rank if rank <= SHALLOW else 0.0,
    f"AP@{DEEP}": lambda rank: 1 / rank if rank <= DEEP else 0.0,
    f"R@{DEEP}": lambda rank: float(rank <= DEEP),
    f"P@{SHALLOW}": lambda rank: 1 / SHALLOW if rank <= SHALLOW else 0.0,
    f"Judged@{SHALLOW}": lambda rank: 1 / SHALLOW if rank <= SHALLOW else 0.0,
}
PERSISTENCE = 0.9
SWAPPED: Mapping[str, float] = {
    "Jaccard@1": 0.0,
    f"Jaccard@{SHALLOW}": 1.0,
    "tau": 1 - 4 / (SHALLOW * (SHALLOW - 1)),
    "RBO": PERSISTENCE,
}
"""Of ten documents the first two change places: one pair of 45 is turned, and only depth 1 differs,
whose weight is one less the persistence."""


def wrong_answers() -> Iterator[str]:
    """List the wrong values of measures, agreements and query outcomes."""
    yield from _quality()
    yield from _agreement()
    yield from _endings()


def _quality() -> Iterator[str]:
    ids = tuple(f"rank {rank}" for rank in RANKS)
    places = range(1, LISTED + 1)
    rows = [
        Row(query, Status.ANSWERED, _hits("right" if at == rank else f"d{at}" for at in places))
        for query, rank in zip(ids, RANKS, strict=True)
    ]
    qrels = Qrels({query: {"right": 1} for query in ids})
    found = score(Run.of("canary", rows), qrels, tuple(FORMULAS), ids)
    for measure, formula in FORMULAS.items():
        right = {query: formula(rank) for query, rank in zip(ids, RANKS, strict=True)}
        yield from _unlike(found[measure], right)


def _agreement() -> Iterator[str]:
    shown = [f"d{at}" for at in range(SHALLOW)]
    turned = [shown[1], shown[0], *shown[2:]]
    left, right = (
        Run.of("canary", [Row("swapped", Status.ANSWERED, _hits(one))]) for one in (shown, turned)
    )
    found = agree(left, right, depths=(1, SHALLOW), p=PERSISTENCE)
    for name, value in SWAPPED.items():
        yield from _unlike(found.scores[name], {"swapped": value})


def _unlike(found: Scores, right: Mapping[str, float]) -> Iterator[str]:
    values = found.by_query
    for query, wanted in right.items():
        value = values.get(query, math.nan)
        if not abs(value - wanted) <= SAME:
            yield f"{found.measure} of the query {query!r} is {value:g}, and must be {wanted:g}"


class _Engine:
    """Answers with as many hits as asked for, and repeats the first; or raises; or shows none."""

    manifest = Manifest("canary", "1", 1, "canary", "canary")

    def search(self, text: str, k: int) -> Answer:
        if text == "raises":
            raise ValueError(text)
        shown = ["d0", *(f"d{at}" for at in range(k - 1))] if text == "shows" else []
        return Answer(_hits(shown), self.manifest.fingerprint)


def _endings() -> Iterator[str]:
    patient = 10**12
    for text, limit_ns, right, hits, twice in (
        ("shows", patient, Status.ANSWERED, DEEP - 1, 1),
        ("nothing", patient, Status.ANSWERED, 0, 0),
        ("raises", patient, Status.FAILED, 0, 0),
        ("shows", 0, Status.TIMED_OUT, 0, 0),
    ):
        row = observe(_Engine(), Query(text, text), DEEP, limit_ns).row
        run = Run.of("canary", [row])
        found = (Status(run.status[0]), int(run.lengths[0]), int(run.duplicates[0]))
        if found != (right, hits, twice):
            yield (
                f"a query that {text} within {limit_ns} ns ended as {found[0].name} with"
                f" {many(found[1], 'hit')} and {found[2]} repeated, and must be {right.name} with"
                f" {hits} and {twice}"
            )


def _hits(names: Iterable[str]) -> tuple[Hit, ...]:
    return tuple(Hit(name, 1 / rank, 1 / rank) for rank, name in enumerate(names, 1))
