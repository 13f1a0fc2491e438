"""Several people judge one pool, each in a file of their own beside it.

Two who judge the same pair at once lose nothing. A file is a pool like any other: ``harness serve``
and ``harness judge`` show it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from harness.core.errors import BadFile, HarnessError
from harness.core.names import checked
from harness.core.printable import many
from harness.corpus import pool as pools
from harness.corpus.pool import Pool

FEWEST = 2
Pair = tuple[str, str]


@dataclass(frozen=True)
class Panel:
    """What each person judged, by name."""

    parts: Mapping[str, Pool]

    @cached_property
    def grades(self) -> Mapping[Pair, Mapping[str, int]]:
        """Of each pair the grades that were given, by name."""
        found: dict[Pair, dict[str, int]] = {}
        for name, part in self.parts.items():
            for pair, grade in zip(part.pairs, part.grades, strict=True):
                given = found.setdefault((pair.query_id, pair.doc_id), {})
                if grade is not None:
                    given[name] = grade
        return found


def own_file(pool: Path, name: str) -> Path:
    """Return the file of one person beside a pool, begun without grades where there is none.

    Raises:
        BadName: no person can be called so.
        BadFile: the pool cannot be read.
    """
    checked("an assessor", name)
    path = pool.with_name(f"{pool.stem}.{name}{pool.suffix}")
    if not path.exists():
        pairs = pools.read(pool).pairs
        pools.begin(path, Pool(pairs, (None,) * len(pairs)))
    return path


def read(files: Sequence[Path]) -> Panel:
    """Read the files of several people who judge the same pairs.

    Raises:
        HarnessError: there are fewer than two, or two of one person.
        BadFile: one cannot be read, has a grade off the scale, or has not the pairs of the first.
    """
    if len(files) < FEWEST:
        raise HarnessError(
            "agreement takes the files of two people; begin one each: harness judge POOL --by NAME"
        )
    parts: dict[str, Pool] = {}
    known: set[Pair] = set()
    for path in files:
        part, name = pools.read(path, strict=True), path.stem.rpartition(".")[2]
        pairs = {(pair.query_id, pair.doc_id) for pair in part.pairs}
        if parts and pairs != known:
            problem = f"its {many(len(pairs), 'pair')} are not the {len(known)} of {files[0].name}"
            raise BadFile(path, problem, f"Restore it and {pools.beside(path).name}")
        if name in parts:
            raise HarnessError(f"{path}: {name} has another file; name one file a person")
        parts[name], known = part, pairs
    return Panel(parts)
