"""Team-draft interleaving: one list of several rankings, whose clicks tell which is preferred.

Radlinski, Kurup and Joachims, "How does clickthrough data reflect retrieval quality?", CIKM 2008.
More than two rankings: Schuth, Sietsma, Whiteson, Lefortier and de Rijke, "Multileaved
comparisons for fast online evaluation", CIKM 2014. In each round the rankings take turns in a drawn
order, and each adds its best document that is not in the list yet. A click counts for the
ranking that added the document.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from random import Random
from typing import NamedTuple


class Mixed(NamedTuple):
    """A list, and for each document the number of the ranking that added it."""

    documents: tuple[str, ...]
    teams: tuple[int, ...]


def team_draft(rankings: Sequence[Sequence[str]], length: int, coins: Random) -> Mixed:
    """Mix rankings into a list of at most ``length`` documents; none comes twice."""
    documents: dict[str, int] = {}
    rest = [iter(ranking) for ranking in rankings]
    playing = [*range(len(rankings))]
    while playing and len(documents) < length:
        coins.shuffle(playing)
        for team in (*playing,):
            fresh = next((one for one in rest[team] if one not in documents), None)
            if fresh is None:
                playing.remove(team)
            elif len(documents) < length:
                documents[fresh] = team
    return Mixed(tuple(documents), tuple(documents.values()))


def credits_of(mixed: Mixed, clicked: Collection[str], teams: int) -> tuple[int, ...]:
    """Count the clicked documents of each team; a document that is clicked twice counts once."""
    by_team = [0] * teams
    for document, team in zip(mixed.documents, mixed.teams, strict=True):
        by_team[team] += document in clicked
    return tuple(by_team)


def preference_of(found: Iterable[tuple[int, int]]) -> int:
    """Say who wins over several lists: 1 the second team, -1 the first, 0 neither."""
    apart = sum(second - first for first, second in found)
    return (apart > 0) - (apart < 0)
