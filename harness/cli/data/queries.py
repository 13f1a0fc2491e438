"""``harness queries``: query sets from a log of what people search for."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli.base.app import out
from harness.cli.base.boundary import aside
from harness.cli.base.project import Project
from harness.core.printable import counted, many

if TYPE_CHECKING:
    from harness.corpus.querylog.formats import Fields
    from harness.stages.queries.drift import Drift
    from harness.stages.queries.from_log import SampleCard

Log = Annotated[Path, typer.Argument(help="A log, packed with gzip or not; or a shadow log.")]
Format = Annotated[
    str,
    typer.Option(
        "--format", help="csv, jsonl, mcp, common, combined or vhost. [by the file's name]"
    ),
]
Text = Annotated[str, typer.Option(help="Column, key or URL parameter of the query. [found]")]
Results = Annotated[str, typer.Option(help="The same of the number of results. [found]")]
Session = Annotated[str, typer.Option(help="The same of who sent it. [found]")]


def register(app: typer.Typer) -> None:
    """Put the group ``queries`` on the command line."""
    group = typer.Typer(
        no_args_is_help=True, help="Sample a query set from a log, and watch a later log for drift."
    )
    group.command("from-log")(from_log)
    group.command()(drift)
    group.command()(pool)
    app.add_typer(group, name="queries")


def from_log(
    log: Log,
    *,
    size: Annotated[int, typer.Option(min=1, help="At most so many queries.")],
    to: Annotated[Path, typer.Option("--out", help="File to write; its card comes beside it.")],
    kind: Format = "",
    text: Text = "",
    results: Results = "",
    session: Session = "",
    seed: Annotated[
        int | None, typer.Option(min=0, help="Seed of the sample. [that of params.yaml]")
    ] = None,
) -> None:
    """Sample a query set from a log, so that means over it speak of the traffic.

    Lines are cleaned by stated rules, personal data are masked, and equal queries are counted.
    The sample is stratified by frequency (head, torso, tail), form, and whether results were
    found. Each query keeps its inclusion probability. The log is streamed: its length does not
    matter to memory. OUT.card.json says what was left out, masked and drawn.

    Example: harness queries from-log access.log --format combined --text q --size 400
    --out out/queries.jsonl
    """
    from harness.core.durable.owned import check_apart
    from harness.stages.queries.from_log import from_log as make

    project = Project.here()
    check_apart(to, project.sources)
    seed = project.params.score.seed if seed is None else seed
    fields = _fields(text, results, session)
    made = make(log, to, kind=kind, fields=fields, size=size, seed=seed)
    _show(made.card)
    out.print(f"wrote {many(made.queries, 'query')} to {to}", markup=False)


def drift(
    sample: Annotated[Path, typer.Argument(help="The sample, as from-log wrote it.")],
    log: Log,
    *,
    kind: Format = "",
    text: Text = "",
    results: Results = "",
    session: Session = "",
) -> None:
    """Compare a later log with the one that a sample was drawn from.

    Prints the shares of the requests by form and by whether results were found, then and now.
    Estimates from the sample how many of the later requests repeat queries of the earlier log.

    Example: harness queries drift out/queries.jsonl access.log.1 --format combined
    """
    from harness.stages.queries.drift import drift as compare

    found = compare(sample, log, kind=kind, fields=_fields(text, results, session))
    _show_drift(found)


def pool(
    queries: Annotated[Path, typer.Argument(help="Queries as JSON lines, such as a sample.")],
    corpus: Annotated[Path, typer.Argument(help="Documents as JSON lines.")],
    arms: Annotated[str, typer.Option(help="Names or TOML files, with commas between.")],
    depth: Annotated[int, typer.Option(min=1, help="First documents of each arm.")],
    to: Annotated[Path, typer.Option("--out", help="Pool to write; OUT.jsonl comes beside it.")],
    *,
    grades: Annotated[int, typer.Option(min=1, help="The largest grade; the least is 0.")] = 1,
) -> None:
    """Write the first pool for queries without judgements: what each engine shows first.

    The pairs of a query stand in a drawn order. `harness judge` fills the pool in, also in part,
    and `harness import jsonl CORPUS QUERIES OUT` makes a data set of it.

    Example: harness queries pool out/queries.jsonl corpus.jsonl --arms fts5,tantivy --depth 5
    --out out/pool.qrels
    """
    from harness.core.durable.owned import check_apart
    from harness.core.durable.scratch import scratch
    from harness.corpus import jsonl
    from harness.stages.layout import Layout
    from harness.stages.queries.first_pool import first_pool

    project = Project.here()
    check_apart(to, (queries, corpus, *project.sources))
    named = [name.strip() for name in arms.split(",") if name.strip()]
    with scratch() as work, aside():
        layout = Layout(work / "build" / "sample", work / "perf", work / "cache")
        found = first_pool(
            layout,
            tuple(jsonl.documents(corpus)),
            tuple(jsonl.queries(queries)),
            arms=named,
            cache=project.cache,
            params=project.params.replay,
            depth=depth,
            largest=grades,
            path=to,
        )
    out.print(
        f"wrote {counted(found.pairs, 'pair')} of {found.queries:,} queries to {to}; judge them:"
        f" harness judge {to}",
        markup=False,
    )


def _fields(text: str, results: str, session: str) -> Fields:
    from harness.corpus.querylog.formats import Fields

    return Fields(text, results, session)


def _show(card: SampleCard) -> None:
    out.print(f"{card.requests:,} of {card.lines:,} lines are requests that count", markup=False)
    for why, number in card.left_out.items():
        out.print(f"  {number:,} left out: {why}", markup=False)
    if card.untold_requests:
        out.print(
            f"  {counted(card.untold_requests, 'request has')} no text in a shadow log: both arms"
            " agreed",
            markup=False,
        )
    if card.foreign_lines:
        out.print(f"  {counted(card.foreign_lines, 'line was')} read as Windows-1252", markup=False)
    for kind, number in card.masked.items():
        out.print(f"  {counted(number, 'request')} masked: {kind}", markup=False)
    for limit in card.mask_limits:
        out.print(f"  limit of masking: {limit}", markup=False)
    for name, row in card.strata.items():
        out.print(
            f"  {name}: {row.sampled:,} of {row.queries:,} queries,"
            f" {counted(row.requests, 'request')}",
            markup=False,
        )


def _show_drift(found: Drift) -> None:
    for kind in sorted(found.then.keys() | found.now.keys()):
        then, now = found.then.get(kind, 0.0), found.now.get(kind, 0.0)
        out.print(f"  {kind}: {then:.1%} then, {now:.1%} now", markup=False)
    out.print(
        f"{found.distance:.1%} of {found.requests:,} requests are of another kind than then;"
        f" about {found.carried:.1%} repeat a query of the earlier log",
        markup=False,
    )
