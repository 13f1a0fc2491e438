"""Where evidence lies: below the project, or in what ``harness run`` left."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli.base.project import Project

if TYPE_CHECKING:
    from harness.corpus.trec import Missing
    from harness.stages.layout import Layout

Dataset = Annotated[
    str, typer.Option(help="A folder of datasets/; all of params.yaml where none is named.")
]
OneDataset = Annotated[
    str, typer.Option("--dataset", help="A folder of datasets/. [the one of params.yaml]")
]
Left = Annotated[
    Path | None, typer.Option("--out", help="What a `harness run` wrote, instead of the project.")
]

Threads = Annotated[
    int, typer.Option(min=1, max=1024, help="How many draw resamples; no number depends on it.")
]
AskedTwice = Annotated[
    str,
    typer.Option(
        "--aa", help="Queries of the A/A replay: `all`, or a `sample` of 50. [params.yaml]"
    ),
]


def left_by_run(out: Path) -> Layout:
    """Say where the evidence of a ``harness run`` into ``out`` lies.

    Raises:
        BadFile: there is none.
    """
    from harness.stages.left import left_by_run as found

    return found(out)


def evidence_at(dataset: str, out: Path | None, *, adds: bool = False) -> Layout:
    """Say where the evidence of one data set lies: below the project, or in what a run left.

    The data set need not be named where ``params.yaml`` has one. ``adds`` says that the command
    writes there.

    Raises:
        HarnessError: both are named, or neither and the project has several data sets.
        UnknownName, BadName: the data set is unknown.
        BadFile, NotOurs: as ``left_by_run`` and ``added_to_run``.
    """
    from harness.core.errors import HarnessError

    one_of(dataset, out)
    if out:
        return added_to_run(out) if adds else left_by_run(out)
    project = Project.here()
    names = project.datasets(dataset)
    if len(names) != 1:
        raise HarnessError(
            f"the project has several data sets ({', '.join(names)}): name one with --dataset, or"
            " the --out of a harness run"
        )
    return project.layout(names[0])


def of_run(ran: Path, dataset: str) -> Layout:
    """Say where the evidence of a ``harness run`` lies; the data set need not be named.

    Raises:
        BadFile: there is none.
        UnknownName: it is of another data set.
    """
    from harness.core.errors import UnknownName

    found = left_by_run(ran)
    if dataset and name_of(dataset) != found.root.name:
        raise UnknownName(f"data set in {ran}", dataset, [found.root.name])
    return found


def own(
    folder: Path,
    owner: str,
    *reads: Path | None,
    known: Callable[[Path], bool] | None = None,
) -> None:
    """Make ``folder`` one of ``owner``, and refuse what belongs to somebody else or is read.

    Raises:
        NotOurs, HarnessError: as ``harness.core.durable.owned.claim``.
    """
    from harness.core.durable.owned import claim

    project = Project.here()
    sources = (*filter(None, reads), *project.sources)
    claim(folder, owner, reads=sources, project=project.root.name, known=known)


def added_to_run(out: Path) -> Layout:
    """Say where the evidence of a ``harness run`` lies to which a command adds something.

    Raises:
        NotOurs: the folder does not bear its mark.
        BadFile: there is none.
    """
    from harness.core.durable.owned import RUN, check_held

    found = left_by_run(out)
    check_held(out, RUN)
    return found


def name_of(dataset: str) -> str:
    """Give the name of a data set, or that of a folder with one.

    Raises:
        BadName: no data set can be called so.
    """
    from harness.core.names import checked

    return checked("a data set", Path(dataset).resolve().name if dataset else "")


def missing_rule(word: str) -> Missing:
    """Take what a query without a line in a run file is.

    Raises:
        UnknownName: the rule is unknown.
    """
    from harness.core.errors import UnknownName
    from harness.corpus.trec import Missing

    if word not in set(Missing):
        raise UnknownName("rule for queries without a line", word, Missing)
    return Missing(word)


def one_of(dataset: str, out: Path | None) -> None:
    """Refuse a data set beside a folder.

    Raises:
        HarnessError: both are named.
    """
    from harness.core.errors import HarnessError

    if dataset and out:
        raise HarnessError("--out has its own data; leave --dataset out")
