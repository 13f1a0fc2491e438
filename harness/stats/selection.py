"""The best of several candidates by their values, and how much that choice flatters itself.

The mean of the best of many candidates, on the queries that chose it, is too good. Nested
cross-validation repeats the whole choice without one fold at a time, and looks at the fold that had
no part in it. Varma and Simon, "Bias in error estimation when using cross-validation for model
selection", BMC Bioinformatics 7, 2006.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from harness.core.digest import of_json
from harness.core.errors import EvidenceError
from harness.core.printable import many

TIE_DIGITS = 12
"""Means equal to so many digits are a tie, which the earlier candidate wins."""

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Values = Callable[[int, Ints], Floats]
"""Values of some rows under a candidate, in their order."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Queries of one or more collections, one a row."""

    collection: Ints
    """Code of the collection of each row, from 0."""
    cluster: Ints
    """Code of the cluster of each row: dependent queries share one, and one collection."""
    order: Ints
    """Place of each row's cluster within its collection, drawn by a seed, from 0."""

    @classmethod
    def of(cls, collections: Sequence[str], clusters: Sequence[str], seed: int) -> "Rows":
        """Code collections and clusters by their names, in byte order, and draw the order."""
        names, collection = np.unique(collections, return_inverse=True)
        labels = list(zip(collections, clusters, strict=True))
        code = {label: at for at, label in enumerate(dict.fromkeys(labels))}
        order = np.zeros(len(labels), dtype=np.int64)
        for name in names.tolist():
            mine = sorted(
                (label for label in code if label[0] == name),
                key=lambda label: of_json([seed, *label]),
            )
            place = {label: at for at, label in enumerate(mine)}
            here = [at for at, label in enumerate(labels) if label[0] == name]
            order[here] = [place[labels[at]] for at in here]
        return cls(
            collection.astype(np.int64),
            np.array([code[label] for label in labels], dtype=np.int64),
            order,
        )

    @property
    def everything(self) -> Ints:
        """All rows."""
        return np.arange(len(self.collection))

    @property
    def clusters(self) -> int:
        """Clusters of the collection that has the fewest."""
        return min(
            len(np.unique(self.cluster[self.collection == at])) for at in np.unique(self.collection)
        )

    def mean(self, rows: Ints, values: Floats) -> float:
        """Mean over collections of the mean of each."""
        codes = self.collection[rows]
        return float(np.mean([values[codes == at].mean() for at in np.unique(codes)]))

    def weights(self) -> Floats:
        """Weight of each row, on average 1, with which a plain mean is that of ``mean``."""
        _, code, count = np.unique(self.collection, return_inverse=True, return_counts=True)
        found: Floats = len(self.collection) / (len(count) * count[code])
        return found


@dataclass(frozen=True, slots=True)
class Search:
    """Successive halving: few queries first, more for those that do well.

    Jamieson and Talwalkar, "Non-stochastic best arm identification and hyperparameter
    optimization", AISTATS 2016.
    """

    candidates: int
    first: int
    """Clusters of each collection in the first round; all of them make it a plain grid."""
    keep: float
    """Share of the candidates that a round passes on; the next one has 1 / ``keep`` times the
    clusters."""

    def best(self, values: Values, over: Rows, rows: Ints) -> int:
        """Return the candidate of the highest mean when all ``rows`` are looked at."""
        left, clusters = list(range(self.candidates)), self.first
        _, place = np.unique(over.order[rows], return_inverse=True)
        while True:
            seen = rows[place < clusters]
            means = {one: over.mean(seen, values(one, seen)) for one in left}
            ranked = sorted(left, key=lambda one: (-round(means[one], TIE_DIGITS), one))
            if len(seen) == len(rows):
                return ranked[0]
            left = sorted(ranked[: max(1, round(len(left) * self.keep))])
            clusters = max(clusters + 1, round(clusters / self.keep))


@dataclass(frozen=True, slots=True, eq=False)
class Selection:
    """What was chosen, and the same choice as it does on rows that had no part in it."""

    best: int
    seen: Floats
    """Values of the choice, shape (rows,)."""
    held_out: Floats
    """Values of the choice that was made without the row's fold, shape (rows,)."""
    apparent: float
    expected: float

    @property
    def optimism(self) -> float:
        """How much better the choice looks than it can be expected to be elsewhere."""
        return self.apparent - self.expected


def select(values: Values, over: Rows, search: Search, folds: int) -> Selection:
    """Choose on all rows, and again without each fold.

    A cluster lies in one fold as a whole.
    """
    if over.clusters < folds:
        raise EvidenceError(
            f"{many(over.clusters, 'independent query makes')} no {folds} folds; judge more, or"
            " name fewer"
        )
    rows, fold = over.everything, over.order % folds
    best = search.best(values, over, rows)
    seen = values(best, rows)
    held_out = np.full(len(rows), np.nan)
    for at in range(folds):
        without = search.best(values, over, rows[fold != at])
        held_out[fold == at] = values(without, rows[fold == at])
    means = over.mean(rows, seen), over.mean(rows, held_out)
    return Selection(best, seen, held_out, *means)
