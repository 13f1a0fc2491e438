"""What code search asks of an engine for words; SQLite and Tantivy keep it alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import NamedTuple, Protocol

from engines.stacks.code.backends.wanted import TermClause
from engines.stacks.code.catalog import Rows
from engines.stacks.code.unit import Texts


class Scored(NamedTuple):
    """A unit's row, and a score of which higher is better."""

    row: int
    score: float


class OpenBackend(Protocol):
    """An open index of words."""

    @property
    def units(self) -> int:
        """How many units it holds."""
        ...

    def search(
        self, wanted: Sequence[TermClause], depth: int, allowed: Rows | None
    ) -> Sequence[Scored]:
        """Give the ``depth`` best of the ``allowed`` rows (None: all), ties by row.

        Scores do not depend on ``allowed``.
        """
        ...


class Backend(Protocol):
    """An engine for words; holds no open handles."""

    @property
    def name(self) -> str:
        """As explain says it."""
        ...

    @property
    def version(self) -> str:
        """The software and its version."""
        ...

    def build(self, folder: Path, texts: Sequence[Texts], weights: Mapping[str, int]) -> None:
        """Index terms, row by row, each field counted as often as it weighs."""
        ...

    def open(self, folder: Path, weights: Mapping[str, int]) -> AbstractContextManager[OpenBackend]:
        """Open what ``build`` wrote.

        Raises:
            OSError, ValueError: it is missing or broken.
        """
        ...
