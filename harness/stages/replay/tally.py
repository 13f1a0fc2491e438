"""A searcher that counts its calls: how often, and for how many hits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import combinations

from harness.core.engine import Answer, Manifest, Searcher, TakesParams
from harness.core.errors import EvidenceError
from harness.core.printable import many
from harness.core.records import Scalar
from harness.core.run import Run, Status


class Tally:
    """Answers as ``searcher`` does, with params or, where it takes none, without; and counts."""

    def __init__(self, searcher: Searcher) -> None:
        self._search = searcher.search
        self._search_with = searcher.search_with if isinstance(searcher, TakesParams) else None
        self.manifest: Manifest = searcher.manifest
        self.asked = 0
        self.depths: set[int] = set()
        """How many hits were requested."""

    def search(self, text: str, k: int) -> Answer:
        self._note(k)
        return self._search(text, k)

    def search_with(self, text: str, k: int, params: Mapping[str, Scalar]) -> Answer:
        if self._search_with is None:
            return self.search(text, k)
        self._note(k)
        return self._search_with(text, k, params)

    def _note(self, k: int) -> None:
        self.asked += 1
        self.depths.add(k)


def remarks(run: Run) -> Iterator[str]:
    """Say what a reader of the means has to know: repeated attempts, and queries without answer."""
    if run.retries:
        count = run.rate_limited
        limited = (
            f". The server limited the rate of {count} of them: set rate_per_s" if count else ""
        )
        yield (
            f"{run.arm}: {many(run.retries, 'attempt')} failed and were repeated; their time is in"
            f" the latencies{limited}"
        )
    failed = [at for at, status in enumerate(run.status) if status != Status.ANSWERED]
    if failed:
        at = next((at for at in failed if run.errors[at]), failed[0])
        why = f"{run.query_ids[at]}: {run.errors[at] or 'no error was noted'}"
        yield f"{run.arm}: {len(failed)} of {len(run)} queries have no answer; the first, {why}"


def check_depth(run: Run, tally: Tally, k: int) -> None:
    """Compare how many hits were requested of an arm with ``k`` and with what its run says.

    Raises:
        EvidenceError: some query asked for more or fewer.
    """
    said = run.conditions.k if run.conditions else None
    if said != k or tally.depths - {k}:
        asked = ", ".join(map(str, sorted(tally.depths))) or "an unknown number of"
        raise EvidenceError(
            f"{run.arm}: received requests for {asked} hits a query, its run says {said},"
            f" but replay.k is {k}: the end of its lists is not a miss. Correct harness.replay,"
            " and"
            " replay"
        )


def check_turns(tallies: Mapping[str, Tally], turns: int, k: int) -> None:
    """Compare how often each arm was queried, and for how many hits, with what a race gave it.

    Raises:
        EvidenceError: an arm was queried more or less often: the clock of another arm covers it
            too, or its own clock covers nothing; or more or fewer hits were requested.
    """
    for arm, tally in tallies.items():
        if tally.asked != turns:
            raise EvidenceError(
                f"{arm} received {many(tally.asked, 'query')} in a race that gave it {turns}"
                " turns: the time of one arm covers another's. Time each arm by itself"
            )
        if tally.depths - {k}:
            asked = ", ".join(map(str, sorted(tally.depths)))
            raise EvidenceError(
                f"{arm} received requests for {asked} hits in a race over {k}: its times"
                " are of other answers. Correct harness.replay.race, and race again"
            )


def check_apart(searchers: Mapping[str, Searcher]) -> None:
    """Refuse arms that are one open index: each is opened by itself.

    Raises:
        EvidenceError: two of them are the same object.
    """
    for left, right in combinations(searchers, 2):
        if searchers[left] is searchers[right]:
            raise EvidenceError(
                f"{left} and {right} are one open index, so the times of one are the other's. Open"
                " each arm by itself"
            )
