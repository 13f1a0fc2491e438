"""``similar.json``: pairs of queries that a model found alike, kept beside a data set's card.

A model's last bits differ between processors, so ``harness prepare --similar`` finds its pairs
once. They are read ever after, and the same data give the same clusters without a model.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.core.errors import BadFile
from harness.core.formats import json_file

SIMILAR = "similar.json"
HINT = "Run: harness prepare --similar"
LEAST_COSINE = 0.85
"""Cosine, rounded, from which on two queries are alike; docs/decisions/0018 has the evidence."""
DIGITS = 2
ROWS = 1_024
"""Queries that are compared with all others at once."""


@dataclass(frozen=True, slots=True)
class Similar:
    """Pairs of query ids with their rounded cosine, and how they were found."""

    model: str
    """Name and digests; ``none`` where no model was used."""
    least_cosine: float
    queries_sha256: str
    pairs: tuple[tuple[str, str, float], ...]

    @classmethod
    def of(cls, found: Mapping[str, Any]) -> Similar:
        """Take what ``json`` reads.

        Raises:
            KeyError, TypeError, ValueError: it is something else.
        """
        pairs = tuple(
            (str(one), str(other), float(cosine)) for one, other, cosine in found["pairs"]
        )
        model, sha256 = str(found["model"]), str(found["queries_sha256"])
        return cls(model, float(found["least_cosine"]), sha256, pairs)

    @classmethod
    def between(
        cls, ids: Sequence[str], vectors: NDArray[np.float32], model: str, queries_sha256: str
    ) -> Similar:
        """Compare unit vectors, shape (queries, dimension), each with every later one."""
        pairs = tuple((ids[one], ids[other], cosine) for one, other, cosine in _pairs(vectors))
        return cls(model, LEAST_COSINE, queries_sha256, pairs)

    def as_json(self) -> dict[str, Any]:
        """Give what ``of`` takes."""
        return asdict(self)


NONE = Similar("none", LEAST_COSINE, "", ())


def _pairs(vectors: NDArray[np.float32]) -> Iterator[tuple[int, int, float]]:
    for start in range(0, len(vectors), ROWS):
        cosines = np.round(vectors[start : start + ROWS] @ vectors[start:].T, DIGITS)
        for row, column in np.argwhere(np.triu(cosines, 1) >= np.float32(LEAST_COSINE)).tolist():
            yield start + row, start + column, round(float(cosines[row, column]), DIGITS)


def read(dataset: Path, queries_sha256: str) -> Similar:
    """Read the pairs that are kept beside a data set's card; none where no file is there.

    Raises:
        BadFile: it is of other queries, or holds something else.
    """
    path = dataset / SIMILAR
    if not path.exists():
        return NONE
    try:
        found = Similar.of(json_file(path))
    except (OSError, ValueError, KeyError, TypeError) as exc:
        raise BadFile(path, f"no pairs of queries ({exc!r})", HINT) from exc
    if found.queries_sha256 != queries_sha256:
        raise BadFile(path, "its pairs are of other queries", HINT)
    return found
