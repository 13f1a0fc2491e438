"""``harness clicks``: what a log of interleaved lists says."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli.base.app import out
from harness.cli.base.project import Project
from harness.core.printable import counted

if TYPE_CHECKING:
    from harness.shadow.clicks.sessions import Preferences

Log = Annotated[Path, typer.Argument(help="Folder of the log of an Interleaver.")]


def register(app: typer.Typer) -> None:
    """Put the group ``clicks`` on the command line."""
    group = typer.Typer(
        no_args_is_help=True, help="Which engine users prefer by their clicks on mixed lists."
    )
    group.command()(report)
    group.command()(labels)
    app.add_typer(group, name="clicks")


def report(log: Log) -> None:
    """Say which engine sessions prefer: the sign test, and an interval valid at every look.

    A click counts for the engine that added the document. A session prefers the engine with more
    clicks. The p-value is for a number of sessions that was set before; the interval may be read at
    any time. With several candidates both are corrected. The confidence is that of params.yaml.

    Example: harness clicks report out/clicks
    """
    from harness.shadow.clicks.log import read
    from harness.shadow.clicks.sessions import preferences

    confidence = Project.here().params.score.confidence
    _show(preferences(read(log), confidence=confidence))


def labels(
    log: Log,
    queries: Annotated[Path, typer.Option(help="Queries as JSON lines; lists are found by text.")],
    attractive: Annotated[
        float, typer.Option(min=0, max=1, help="Clicks a look from which a document is relevant.")
    ],
    min_shown: Annotated[int, typer.Option(min=1, help="Views that a label needs.")],
    to: Annotated[Path, typer.Option("--out", help="File for the labels, as TREC judgements.")],
) -> None:
    """Make labels of clicks by a position-based model, which takes out how often a rank is seen.

    What remains is what makes people click, and that is not relevance. So give them to
    `harness assisted` as a machine's, beside judgements by people.

    Example: harness clicks labels out/clicks --queries datasets/mine/queries.jsonl
    --attractive 0.3 --min-shown 20 --out out/clicks.qrels
    """
    from harness.core.durable.owned import check_new
    from harness.corpus import jsonl, trec
    from harness.shadow.clicks.log import read
    from harness.stages.clicks.labels import labels as made_of

    check_new(to, reads=(log, queries, *Project.here().sources))
    found = made_of(read(log), jsonl.queries(queries), attractive=attractive, min_shown=min_shown)
    trec.write_qrels(to, found.qrels)
    rows = [*found.qrels.rows()]
    looked = ", ".join(f"{one:.2f}" for one in found.looked_at)
    out.print(f"a rank is looked at with probability {looked}", markup=False)
    out.print(f"{counted(found.rare, 'pair was')} shown fewer than {min_shown} times", markup=False)
    if found.unknown:
        out.print(f"{counted(found.unknown, 'list is')} of other queries", markup=False)
    relevant = sum(row.grade for row in rows)
    out.print(
        f"wrote {counted(len(rows), 'label')} to {to}, {relevant:,} of them relevant", markup=False
    )


def _show(found: Preferences) -> None:
    out.print(
        f"{counted(found.sessions, 'session')} saw {counted(found.lists, 'mixed list')} and clicked"
        f" {counted(found.clicks, 'document')}",
        markup=False,
    )
    for arm, one in found.candidates.items():
        of = one.estimate
        verdict = (
            f"{arm} is preferred" if of.low > 0
            else f"{found.control} is preferred" if of.high < 0
            else "open: the interval holds no preference"
        )  # fmt: skip
        out.print(
            f"{arm} against {found.control}: {of.value:+.3f} [{of.low:+.3f}, {of.high:+.3f}]"
            f" of sessions ({one.wins:,} to {one.losses:,}, {one.ties:,} ties),"
            f" p = {one.p_value:.4f}: {verdict}",
            markup=False,
        )
    if found.failed:
        out.print(
            f"{counted(found.failed, 'list was')} the control's own, because an arm failed: they"
            " count for no arm, and a candidate that fails on hard queries looks better than it"
            " is",
            markup=False,
        )
    for count, counts, why in (
        (found.unmixed, "list was", "shown while mixing was off"),
        (found.strays, "click is", "on no list or document of the log"),
    ):
        if count:
            out.print(f"{counted(count, counts)} {why}", markup=False)
