"""Strata of a log's queries, and a random sample of each with its inclusion probability.

A stratum is a class of frequency, the form of the text, and whether most requests found nothing.
The classes of frequency are thirds of the requests: ``head`` are the most frequent queries that
make up the first third, then ``torso``, then ``tail``. Near duplicates count together there.
"""

from __future__ import annotations

import hashlib
import heapq
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from harness.core.errors import HarnessError
from harness.core.printable import many
from harness.core.records import Drawn, Query
from harness.corpus.form import form
from harness.corpus.near_duplicates import stars
from harness.corpus.querylog.tally import Counted, Tally

CLASSES = ("head", "torso", "tail")
CLUSTERED = 3_000
"""Most frequent queries among which near duplicates are found; rarer ones stand alone."""
FEWEST = 2
"""Of a stratum: the variance of one is unknown."""


class Classified(NamedTuple):
    """A query and its stratum."""

    found: Counted
    stratum: str


@dataclass(frozen=True, slots=True)
class Stratum:
    """One part of the log."""

    queries: int
    requests: int
    sampled: int

    @property
    def inclusion(self) -> float:
        """Probability that a query of it is in the sample."""
        return self.sampled / self.queries


def classified(tally: Tally) -> Iterator[Classified]:
    """Yield every query with its stratum, the most frequent first."""
    frequent: list[Counted] = []
    rest = tally.by_frequency()
    total, told = 0, False
    for found in tally.by_frequency():
        total, told = total + found.requests, told or found.known > 0
    for found in rest:
        frequent.append(found)
        if len(frequent) == CLUSTERED:
            break
    passed = 0
    for group in _groups(frequent):
        place = CLASSES[min(2, 3 * passed // total)]
        for found in group:
            yield Classified(found, _stratum(found, place, told=told))
            passed += found.requests
    for found in rest:
        yield Classified(found, _stratum(found, CLASSES[min(2, 3 * passed // total)], told=told))
        passed += found.requests


def _groups(frequent: list[Counted]) -> list[list[Counted]]:
    """Put near duplicates together, the groups with the most requests first."""
    groups: dict[int, list[Counted]] = {}
    for found, first in zip(frequent, stars([one.key for one in frequent]).tolist(), strict=True):
        groups.setdefault(first, []).append(found)
    return sorted(groups.values(), key=lambda of: (-sum(one.requests for one in of), of[0].key))


def _stratum(counted: Counted, place: str, *, told: bool) -> str:
    shape = (form(counted.text) or "form-none").removeprefix("form-")
    zero = ["zero-result" if counted.finds_nothing else "results"] if told else []
    return "/".join([place, shape, *zero])


def strata(tally: Tally, size: int) -> Mapping[str, Stratum]:
    """Count each stratum, and share ``size`` queries among them by their requests.

    Each has at least two of its queries, or its only one. Where a share is more than a stratum has,
    all of it is taken and the others get the rest.

    Raises:
        HarnessError: ``size`` is below what each stratum needs.
    """
    queries: dict[str, int] = {}
    requests: dict[str, int] = {}
    for found, name in classified(tally):
        queries[name] = queries.get(name, 0) + 1
        requests[name] = requests.get(name, 0) + found.requests
    least = {name: min(FEWEST, queries[name]) for name in sorted(queries)}
    if size < sum(least.values()):
        raise HarnessError(
            f"{len(least)} strata need {many(sum(least.values()), 'query')} at least, {size} were"
            " wanted; raise --size"
        )
    shares = _allocated(least, queries, requests, size)
    return {name: Stratum(queries[name], requests[name], shares[name]) for name in least}


def _allocated(
    least: Mapping[str, int], queries: Mapping[str, int], requests: Mapping[str, int], size: int
) -> dict[str, int]:
    """Give one more query at a time to the stratum with the most requests per sampled query."""
    shares = dict(least)
    waiting = [
        (-requests[name] / shares[name], name) for name in shares if shares[name] < queries[name]
    ]
    heapq.heapify(waiting)
    for _ in range(size - sum(shares.values())):
        if not waiting:
            break
        _, name = heapq.heappop(waiting)
        shares[name] += 1
        if shares[name] < queries[name]:
            heapq.heappush(waiting, (-requests[name] / shares[name], name))
    return shares


def drawn(tally: Tally, of: Mapping[str, Stratum], seed: int) -> tuple[Query, ...]:
    """Draw the sample: of each stratum the queries whose keyed digests are smallest."""
    kept: dict[str, list[tuple[int, str, Counted]]] = {name: [] for name in of}
    for found, name in classified(tally):
        mark = -int.from_bytes(_digest(found.key, seed), "big")
        most, least = kept[name], of[name].sampled
        if len(most) < least:
            heapq.heappush(most, (mark, found.key, found))
        elif mark > most[0][0]:
            heapq.heapreplace(most, (mark, found.key, found))
    sample = [(found, name) for name in of for _, _, found in kept[name]]
    sample.sort(key=lambda one: (-one[0].requests, one[0].key))
    return tuple(_query(found, name, of[name]) for found, name in sample)


def query_id(key: str) -> str:
    """Name a query by its words, the same in every log."""
    return f"log-{hashlib.blake2b(key.encode(), digest_size=6).hexdigest()}"


def _digest(key: str, seed: int) -> bytes:
    return hashlib.blake2b(key.encode(), digest_size=8, key=str(seed).encode()).digest()


def _query(counted: Counted, name: str, of: Stratum) -> Query:
    place, shape, *zero = name.split("/")
    slices = [f"traffic-{place}", f"form-{shape}"]
    slices += ["zero-result"] if zero == ["zero-result"] else []
    slices += ["masked"] if counted.masked else []
    return Query(
        query_id(counted.key),
        counted.text,
        tuple(slices),
        drawn=Drawn(name, of.inclusion, counted.requests),
    )
