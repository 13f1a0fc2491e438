"""``harness shadow run``: send a file of queries through a live comparison, offline."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli.base.app import out
from harness.cli.base.boundary import aside
from harness.cli.base.project import Project
from harness.cli.shadow.options import SettingsFile, own_log, settings_file
from harness.core.printable import counted

if TYPE_CHECKING:
    from harness.stages.shadow.run import Ran

INCONCLUSIVE = 3
NS_PER_MS = 1e6


def add(group: typer.Typer) -> None:
    """Put ``run`` into the group."""
    group.command("run")(run)


def run(
    *,
    dataset: Annotated[str, typer.Option(help="The data set whose indexes are queried.")],
    control: Annotated[str, typer.Option(help="The arm that serves.")],
    candidate: Annotated[str, typer.Option(help="The arm that gets mirrored queries.")],
    to: Annotated[Path, typer.Option("--out", help="Folder for the log; one that is there grows.")],
    queries: Annotated[
        Path | None,
        typer.Option(help="Queries as JSON lines with _id and text. [those of the data set]"),
    ] = None,
    titles: Annotated[
        bool, typer.Option("--titles", help="Ask the titles of the documents instead.")
    ] = False,
    count: Annotated[
        int, typer.Option(min=0, help="Number of queries; they repeat from the first. [each once]")
    ] = 0,
    rate: Annotated[
        float, typer.Option(min=0, help="Queries a second. [as fast as nothing is shed]")
    ] = 0.0,
    k: Annotated[int, typer.Option(min=0, help="Requested hits. [params.yaml]")] = 0,
    shadow_settings: SettingsFile = None,
) -> None:
    """Run queries on the control, mirror them to the candidate, and write the log of both.

    Without --rate the next query waits while the candidate has too many before it. Exit code 3
    where nothing could be compared. Look at the log with harness shadow watch.

    Example: harness shadow run --dataset python-docs --control fts5 --candidate tantivy
    --out out/shadow
    """
    from harness.core.errors import HarnessError
    from harness.corpus import jsonl
    from harness.corpus.prepared import Prepared
    from harness.shadow.live.settings import ShadowLog
    from harness.stages.shadow import run as stage
    from harness.stages.shadow.files import read_settings

    project = Project.here()
    layout = project.layout(dataset)
    if titles and queries:
        raise HarnessError("--titles and --queries exclude each other; leave one of them out")
    settings_of = settings_file(shadow_settings)
    own_log(to, layout.root, layout.cache, queries, settings_of)
    settings = read_settings(settings_of)
    if queries:
        asked = tuple(jsonl.queries(queries))
    else:
        own = stage.titles(layout) if titles else Prepared.open(layout.data).queries()
        asked = stage.mixed(own, settings.sampling.seed)
    with aside():
        ran = stage.shadow_run(
            layout,
            (control, candidate),
            project.cache,
            ShadowLog(to, settings),
            stage.Asking(asked, count or len(asked), k or project.params.replay.k, rate),
        )
    _show(ran, to)
    raise typer.Exit(0 if _compared(ran) else INCONCLUSIVE)


def _compared(ran: Ran) -> int:
    return ran.counts.attempted - sum(ran.counts.shed.values()) - ran.counts.lost


def _show(ran: Ran, folder: Path) -> None:
    import numpy as np

    counts = ran.counts
    middle, slow = np.percentile(ran.control_ns, (50, 99)) / NS_PER_MS
    shed = ", ".join(f"{number:,} ({reason})" for reason, number in counts.shed.items()) or "0"
    asked = f"{counted(counts.served, 'query')}, {ran.per_second:,.1f} a second"
    took = f"the control took {middle:.2f} ms in the median, {slow:.2f} ms at its p99"
    left = f"lost: {counts.lost:,}; faults of our own: {counts.faults:,}"
    lines = [
        f"{asked}; {took}.",
        f"{counted(counts.attempted, 'attempt')}; shed: {shed}; {left}.",
        "" if ran.written else "Not all of it was written in time; what waited is skipped.",
        f"The log: {folder}",
    ]
    out.print("\n".join(filter(None, lines)), markup=False)
