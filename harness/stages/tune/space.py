"""The file that says what is searched: values of settings, the measure, folds and seed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from harness.core.errors import BadFile
from harness.core.formats import toml_file
from harness.core.printable import many
from harness.core.reading import Malformed
from harness.core.records import Scalar
from harness.stats.inference import MOST_CONFIDENCE

MAX_CANDIDATES = 10_000
HINT = "docs/how-to/tune.md describes the file"
Values = Annotated[tuple[Scalar, ...], Field(min_length=1, strict=False)]


class _Table(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class SearchTable(_Table):
    """The table ``[search]``."""

    measure: Annotated[str, Field(min_length=1)]
    """In ir-measures notation; its mean over queries, then over data sets, is maximised."""
    folds: Annotated[int, Field(ge=2, le=100)]
    """Parts of each data set's queries; each is left out once."""
    seed: Annotated[int, Field(ge=0)]
    """Draws the folds, the order of queries and the interval."""
    confidence: Annotated[float, Field(ge=0.5, le=MOST_CONFIDENCE)]
    resamples: Annotated[int, Field(ge=1_000, le=10_000_000)]
    first: Annotated[int, Field(ge=1)] | None = None
    """Independent queries of each data set in the first round of successive halving; without it
    each candidate answers every query."""
    keep: Annotated[float, Field(gt=0, lt=1)] = 0.5
    """Share of the candidates that a round passes on to one of ``1 / keep`` times the queries."""


class SpaceFile(_Table):
    """The whole file."""

    search: SearchTable
    space: Mapping[str, Any]


class Space(_Table):
    """What is searched, and how."""

    search: SearchTable
    values: dict[str, Values]
    """By dotted key of a setting."""

    @property
    def candidates(self) -> tuple[dict[str, Scalar], ...]:
        """Every combination of values, the last key's changing first."""
        combined = product(*self.values.values())
        return tuple(dict(zip(self.values, one, strict=True)) for one in combined)


def read(path: Path) -> Space:
    """Read the file.

    Raises:
        BadFile: it is missing or malformed, a key is unknown, missing or impossible, or there are
            more than ``MAX_CANDIDATES`` combinations.
    """
    try:
        raw = SpaceFile.model_validate(toml_file(path))
        found = Space(search=raw.search, values=dict(_flat(raw.space)))
    except OSError as exc:
        raise BadFile(path, f"cannot be read ({exc.strerror})", "Give the path of a space") from exc
    except Malformed as exc:
        raise BadFile(path, f"is not TOML: {exc}", "Correct it", exc.line) from exc
    except ValidationError as exc:
        first = exc.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise BadFile(path, f"{where}: {first['msg']}", HINT) from exc
    count = 1
    for values in found.values.values():
        count *= len(values)
    if not found.values or count > MAX_CANDIDATES:
        problem = f"[space] has {many(count if found.values else 0, 'combination')} of values"
        raise BadFile(path, problem, f"Give 1 to {MAX_CANDIDATES}")
    return found


def _flat(tables: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in tables.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{above}{key}.")
        else:
            yield f"{above}{key}", value
