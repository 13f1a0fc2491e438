"""The worst and the best average precision of one ranking over all completions."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence


def average_precision(
    shown: Sequence[str], judged: Mapping[str, bool], unjudged: Collection[str]
) -> tuple[float, float]:
    """Give the smallest and the largest AP of the documents ``shown``, down to the cutoff.

    ``judged`` says of each judged document whether it is relevant, and one is; ``unjudged`` may or
    may not be, and some of them may not be shown here. For a fixed number of relevant ones among
    them, AP is largest if they come first in the ranking. It is smallest if they are not in it, or
    come last. So all numbers are tried.
    """
    relevant = sum(judged.values())
    places = [at for at, doc_id in enumerate(shown) if doc_id in unjudged]
    good = [at for at, doc_id in enumerate(shown) if judged.get(doc_id, False)]
    elsewhere = len(unjudged) - len(places)
    largest = (
        _summed([*good, *places[:count]]) / (relevant + count) for count in range(len(places) + 1)
    )
    smallest = (
        _summed([*good, *places[len(places) - max(count - elsewhere, 0) :]]) / (relevant + count)
        for count in range(len(unjudged) + 1)
    )
    return min(smallest), max(largest)


def _summed(places: Sequence[int]) -> float:
    """Sum the precision at each relevant place, from 0."""
    return sum(nth / (place + 1) for nth, place in enumerate(sorted(places), start=1))
