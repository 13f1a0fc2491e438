"""A panel: a folder with a pool for each assessor, in an order of its own.

Each assessor writes into a file of their own, so two who judge the same pair at once lose nothing.
A part is a pool like any other: ``harness serve`` and ``harness judge`` show it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from harness.core import digest
from harness.core.durable.owned import PANEL, check_free, check_held, set_mark
from harness.core.errors import BadFile, HarnessError
from harness.core.files import replacing_folder, write_json, write_text
from harness.core.formats import json_file
from harness.core.names import Name, check_distinct, checked
from harness.core.printable import many
from harness.core.reading import text_of
from harness.corpus import pool as pools
from harness.corpus import pool_times
from harness.corpus.pool import GUIDELINES, Pool

FILE = "panel.json"
RESERVED = ("disagreements",)
"""Names of files that no assessor can be called by."""
FEWEST = 2
Pair = tuple[str, str]


class Header(BaseModel):
    """What a panel was made with."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)
    assessors: Annotated[tuple[Name, ...], Field(min_length=FEWEST, strict=False)]
    double: Annotated[float, Field(ge=0, le=1)]
    """Share of the pairs that two of them judge."""
    seed: Annotated[int, Field(ge=0)]
    pool_sha256: str
    dealt: Mapping[Name, Annotated[int, Field(ge=1)]] | None = None
    """Pairs that each got; None where an earlier version began the panel."""


@dataclass(frozen=True)
class Panel:
    """A panel as it is now."""

    folder: Path
    header: Header

    @property
    def assessors(self) -> tuple[str, ...]:
        return self.header.assessors

    def path(self, assessor: str) -> Path:
        """Where the part of an assessor lies."""
        return self.folder / f"{assessor}.qrels"

    @property
    def disagreements(self) -> Path:
        """Where pairs lie that two judged differently, to be judged once more."""
        return self.folder / f"{RESERVED[0]}.qrels"

    @cached_property
    def parts(self) -> Mapping[str, Pool]:
        """The pool of each assessor."""
        return {assessor: self.part(assessor) for assessor in self.assessors}

    def part(self, assessor: str) -> Pool:
        """Read the pool of one assessor; whoever needs a part reads it here.

        Raises:
            BadFile: it cannot be read, has not all pairs that were dealt, or a grade off the scale.
        """
        path, dealt = self.path(assessor), self.header.dealt
        found = pools.read(path, strict=True)
        if dealt is not None and len(found.pairs) != dealt.get(assessor):
            problem = f"it has {many(len(found.pairs), 'pair')}, and {dealt.get(assessor)} were"
            remedy = f"Restore it and {pools.beside(path).name}"
            raise BadFile(path, f"{problem} dealt to {assessor}", remedy)
        return found

    @cached_property
    def grades(self) -> Mapping[Pair, Mapping[str, int | None]]:
        """Of each pair, the grade by each assessor who has it; None where it is open."""
        found: dict[Pair, dict[str, int | None]] = {}
        for assessor, part in self.parts.items():
            for pair, grade in zip(part.pairs, part.grades, strict=True):
                found.setdefault((pair.query_id, pair.doc_id), {})[assessor] = grade
        return found


def begin(  # noqa: PLR0917  all of it is asked for
    pool: Path,
    assessors: Sequence[str],
    double: float,
    seed: int,
    guidelines: Path | None,
    to: Path,
) -> Panel:
    """Deal a pool out: each pair to one assessor, a share of them to two, in random order.

    Raises:
        NotOurs: the folder holds something else.
        HarnessError: it holds a panel already, or the assessors are too few or not distinct.
        BadFile: the pool or the guidelines cannot be read.
    """
    _check(assessors)
    check_free(to, PANEL, reads=(pool, pools.beside(pool)))
    if to.is_dir() and any(to.iterdir()):
        raise HarnessError(f"{to}: a panel began already. Name another folder")
    whole = pools.read(pool)
    said = text_of(guidelines) if guidelines else ""
    dealt = _dealt(len(whole.pairs), len(assessors), double, seed)
    parts = dict(zip(assessors, dealt, strict=True))
    header = Header(
        assessors=tuple(assessors), double=double, seed=seed, pool_sha256=digest.of_file(pool),
        dealt={assessor: len(places) for assessor, places in parts.items()},
    )  # fmt: skip
    with replacing_folder(to, durable=True) as new:
        for assessor, places in parts.items():
            part = Pool(tuple(whole.pairs[at] for at in places), (None,) * len(places))
            pools.begin(new / f"{assessor}.qrels", part)
            write_text(pool_times.beside(new / f"{assessor}.qrels"), "")
        if said:
            write_text(new / GUIDELINES, said)
        write_json(new / FILE, header.model_dump(mode="json"))
        set_mark(new, PANEL)
    return Panel(to, header)


def read(folder: Path) -> Panel:
    """Open a panel.

    Raises:
        NotOurs: the folder holds none.
        BadFile: its header is damaged.
    """
    check_held(folder, PANEL)
    path = folder / FILE
    try:
        return Panel(folder, Header.model_validate(json_file(path)))
    except (OSError, ValueError, ValidationError) as exc:
        raise BadFile(path, f"is not a panel's ({exc})", "Restore it") from exc


def _check(assessors: Sequence[str]) -> None:
    if len(assessors) < FEWEST:
        raise HarnessError("a panel needs two assessors: --assessors ada,ben")
    for at, name in enumerate(assessors):
        checked("an assessor", name)
        check_distinct("an assessor", name, (*assessors[:at], *RESERVED))
        if name in (*assessors[:at], *RESERVED):
            raise HarnessError(f"{name} is taken as a name; give each assessor another one")


def _dealt(count: int, people: int, double: float, seed: int) -> list[list[int]]:
    """Give each assessor places of pairs; every two of them share about equally many."""
    rng = np.random.Generator(np.random.Philox(key=seed))
    dealt: list[list[int]] = [[] for _ in range(people)]
    for turn, at in enumerate(rng.permutation(count).tolist()):
        dealt[turn % people].append(at)
        if turn < round(double * count):
            dealt[(turn + 1 + turn // people % (people - 1)) % people].append(at)
    if not all(dealt):
        raise HarnessError(
            f"the pool has {many(count, 'pair')}, too few for {many(people, 'assessor')}"
        )
    return [rng.permutation(places).tolist() for places in dealt]
