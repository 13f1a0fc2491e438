"""How far a later log has moved from the one that a sample was drawn from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from harness.corpus import jsonl
from harness.corpus.querylog.formats import Fields
from harness.corpus.querylog.tally import Tally
from harness.corpus.wording import normalised
from harness.stages.queries.counting import count
from harness.stages.queries.from_log import read_card
from harness.stages.queries.strata import classified


@dataclass(frozen=True, slots=True)
class Drift:
    """Shares of the requests, then and now."""

    then: Mapping[str, float]
    """By form, and by whether results were found where both logs tell."""
    now: Mapping[str, float]
    requests: int
    """Of the later log."""
    carried: float
    """Estimated share of the later requests whose query the earlier log has too."""

    @property
    def distance(self) -> float:
        """Total variation: the share of requests that would have to be of another kind."""
        kinds = self.then.keys() | self.now.keys()
        return sum(abs(self.then.get(k, 0) - self.now.get(k, 0)) for k in kinds) / 2


def drift(sample: Path, later: Path, *, kind: str, fields: Fields) -> Drift:
    """Compare a later log with the card of a sample.

    What of the later requests the earlier log has too is a Horvitz-Thompson estimate: the sampled
    queries' later requests, each over its inclusion probability.

    Raises:
        BadFile: the sample, its card or the log cannot be read, or the sample was changed.
    """
    card = read_card(sample)
    then = {name: row.requests for name, row in card.strata.items()}
    now: dict[str, int] = {}
    with Tally.open() as tally:
        requests = count(later, tally, kind, fields).requests
        for found, stratum in classified(tally):
            now[stratum] = now.get(stratum, 0) + found.requests
        carried = sum(
            tally.count_of(normalised(query.text)) / query.drawn.inclusion
            for query in jsonl.queries(sample)
            if query.drawn
        )
    told = all(name.count("/") == 2 for name in (*then, *now))  # noqa: PLR2004  the third part
    return Drift(
        _shares(then, told=told), _shares(now, told=told), requests, min(1.0, carried / requests)
    )


def _shares(requests: Mapping[str, int], *, told: bool) -> dict[str, float]:
    """Add up over the classes of frequency, which are thirds of every log."""
    found: dict[str, float] = {}
    total = sum(requests.values())
    for name, count_ in requests.items():
        parts = name.split("/")[1 : 3 if told else 2]
        kind = "/".join(parts)
        found[kind] = found.get(kind, 0) + count_ / total
    return dict(sorted(found.items()))
