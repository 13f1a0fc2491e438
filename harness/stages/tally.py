"""A searcher that counts its questions: in a race nobody else may ask an arm."""

from __future__ import annotations

from collections.abc import Mapping

from harness.core.engine import Answer, Manifest, Searcher, TakesParams
from harness.core.errors import EvidenceError
from harness.core.records import Scalar
from harness.replay.race import Entrant


class Tally:
    """Answers as ``searcher`` does, with params or, where it takes none, without; and counts."""

    def __init__(self, searcher: Searcher) -> None:
        self._search = searcher.search
        self._search_with = searcher.search_with if isinstance(searcher, TakesParams) else None
        self.manifest: Manifest = searcher.manifest
        self.asked = 0

    def search(self, text: str, k: int) -> Answer:
        self.asked += 1
        return self._search(text, k)

    def search_with(self, text: str, k: int, params: Mapping[str, Scalar]) -> Answer:
        if self._search_with is None:
            return self.search(text, k)
        self.asked += 1
        return self._search_with(text, k, params)


def check_turns(tallies: Mapping[Entrant, Tally], turns: int) -> None:
    """Hold how often each arm was asked against how often it was its turn.

    Raises:
        EvidenceError: an arm was asked more or less often: the clock of another arm covers it
            too, or its own clock covers nothing.
    """
    for (arm, twin), tally in tallies.items():
        if tally.asked != turns:
            name = f"{arm}{' (twin)' if twin else ''}"
            raise EvidenceError(
                f"{name} was asked {tally.asked} times in a race that gave it {turns} turns: the"
                " time of one arm covers another's. Time each arm by itself"
            )
