"""Where evidence lies: below the project, or in what ``harness run`` left."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from harness.stages.layout import Layout
    from harness.stages.ties import TieRule

Dataset = Annotated[
    str, typer.Option(help="A folder of datasets/; all of params.yaml where none is named.")
]
Left = Annotated[
    Path | None, typer.Option("--out", help="What a `harness run` wrote, instead of the project.")
]

Threads = Annotated[
    int, typer.Option(min=1, help="How many draw resamples; no number depends on it.")
]


def left_by_run(out: Path) -> Layout:
    """Say where the evidence of a ``harness run`` into ``out`` lies.

    Raises:
        BadFile: there is none.
    """
    from harness.stages.left import left_by_run as found

    return found(out)


def tie_rule(word: str) -> TieRule:
    """Take what is to be made of equal scores.

    Raises:
        UnknownName: there is no such rule.
    """
    from harness.core.errors import UnknownName
    from harness.stages.ties import TieRule

    if word not in set(TieRule):
        raise UnknownName("rule for ties", word, TieRule)
    return TieRule(word)


def one_of(dataset: str, out: Path | None) -> None:
    """Refuse a data set beside a folder.

    Raises:
        HarnessError: both are named.
    """
    from harness.core.errors import HarnessError

    if dataset and out:
        raise HarnessError("--out has its own data; leave --dataset out")
