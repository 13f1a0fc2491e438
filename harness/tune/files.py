"""The file of a search over settings, and the arm's file with other values."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from itertools import product
from math import prod
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from harness.core.errors import BadFile, HarnessError
from harness.core.formats import toml_file, toml_of
from harness.core.names import checked
from harness.core.printable import many
from harness.core.reading import Malformed, text_of
from harness.core.records import Scalar
from harness.core.store import Artifact
from harness.policy import load
from harness.stats.inference import MOST_CONFIDENCE
from harness_engines.contract import with_values

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
    """Read the file."""
    return SPACES.read(path)


def _space_in(path: Path) -> Space:
    raw = SpaceFile.model_validate(toml_file(path))
    found = Space(search=raw.search, values=dict(_flat(raw.space)))
    count = prod(map(len, found.values.values())) if found.values else 0
    if not 1 <= count <= MAX_CANDIDATES:
        problem = f"[space] has {many(count, 'combination')} of values"
        raise BadFile(path, problem, f"Give 1 to {MAX_CANDIDATES}")
    return found


SPACES = Artifact("the file of a search", _space_in, remedy=HINT)


def _flat(tables: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in tables.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{above}{key}.")
        else:
            yield f"{above}{key}", value


MARK = "# Written by harness tune, which replaces it. Copy it to change it."
VALUE = re.compile(r"""^([^=#]++=\s*+)("(?:[^"\\]|\\.)*"|'[^']*'|[^#\s]+)(.*)$""")


def is_ours(path: Path) -> bool:
    """Return whether a file was written by this command."""
    return path.is_file() and text_of(path).startswith(MARK)


def check_place(to: Path, arm: Path, stack: str) -> None:
    """Refuse a place where the written arm would not find its code, or the arm itself."""
    if to.suffix != ".toml":
        raise HarnessError(f"{to}: name a .toml file; the record is written beside it")
    checked("an arm", to.stem)
    if to.resolve() == arm.resolve():
        raise HarnessError(f"{to}: is the arm that is tuned. Name another file")
    if stack.endswith(".py") and to.resolve().parent != arm.resolve().parent:
        raise HarnessError(f"{to}: {stack} lies beside {arm}; name a file in {arm.parent}")


def arm_text(arm: Path, chosen: Mapping[str, Scalar], record: str) -> str:
    """Return the text of ``arm`` with ``chosen`` values, by dotted key, and its tuning record."""
    text = text_of(arm)
    where = load.find(text)
    changed = [line for line in text.splitlines() if line != MARK]
    shift = len(text.splitlines()) - len(changed)
    for key, value in chosen.items():
        number = where.get(("settings", *key.split(".")))
        found = VALUE.match(changed[number - 1 - shift]) if number else None
        if number is None or found is None:
            problem = f"settings.{key}: is not on a line of its own"
            raise BadFile(arm, problem, f"Write {key.split('.')[-1]} = ... on a line of its own")
        changed[number - 1 - shift] = f"{found[1]}{_toml(value)}{found[3]}"
    kept = [line for line in changed if not re.match(r"tuning\s*=", line)]
    after = next(at for at, line in enumerate(kept) if re.match(r"stack\s*=", line)) + 1
    kept.insert(after, f"tuning = {_toml(record)}")
    made = "\n".join([MARK, *kept]) + "\n"
    _check_same(arm, text, made, chosen)
    return made


def _check_same(arm: Path, before: str, after: str, chosen: Mapping[str, Scalar]) -> None:
    """Compare the settings that were meant with those that the new text has."""
    meant = with_values(toml_of(before).get("settings", {}), chosen)
    try:
        same = toml_of(after).get("settings", {}) == meant
    except Malformed:
        same = False
    if not same:
        hint = "Write each searched setting once, on a line of its own"
        raise BadFile(arm, "its settings cannot be replaced line by line", hint)


def _toml(value: Scalar) -> str:
    """Write a value as TOML; JSON's strings, numbers and truths are TOML's too."""
    return json.dumps(value, ensure_ascii=False)
