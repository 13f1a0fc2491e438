"""``harness queries``: query sets of logs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli.command import Options, Result, command, group, said
from harness.cli.options import Arms, Corpus, Seed, ToFile, listed
from harness.cli.project import Project
from harness.core.printable import counted, many

if TYPE_CHECKING:
    from harness.logs.querylog import Fields as LogFields
    from harness.logs.stage import LogSample

Log = Annotated[Path, typer.Argument(help="A log, packed with gzip or not; or a shadow log.")]
queries = group("queries", "Sample a query set from a log, and watch a later log for drift.")


@dataclass(frozen=True, slots=True)
class LogForm(Options):
    """How a log is read."""

    kind: Annotated[
        str,
        typer.Option(
            "--format", help="csv, jsonl, mcp, common, combined or vhost. [by the file's name]"
        ),
    ] = ""
    text: Annotated[
        str, typer.Option(help="Column, key or URL parameter of the query. [found]")
    ] = ""
    results: Annotated[str, typer.Option(help="The same of the number of results. [found]")] = ""
    session: Annotated[str, typer.Option(help="The same of who sent it. [found]")] = ""

    @property
    def fields(self) -> LogFields:
        """Where the values of a line are."""
        from harness.logs.querylog import Fields

        return Fields(self.text, self.results, self.session)


@command(queries, "from-log")
def from_log(
    log: Log,
    *,
    size: Annotated[int, typer.Option(min=1, help="At most so many queries.")],
    to: ToFile,
    form: LogForm,
    seed: Seed = None,
) -> Result:
    """Sample a query set from a log, so that means over it represent the traffic.

    Lines are cleaned by stated rules, personal data are masked, and equal queries are counted.
    The sample is stratified by frequency (head, torso, tail), form, and whether results were
    found. Each query keeps its inclusion probability. The log is streamed: its length does not
    matter to memory. OUT.card.json says what was left out, masked and drawn.

    Example: harness queries from-log access.log --format combined --text q --size 400
    --out out/queries.jsonl
    """
    from harness.core.folders import check_apart
    from harness.logs.stage import from_log as make

    project = Project.here()
    check_apart(to, project.sources)
    seed = project.params.score.seed if seed is None else seed
    made = make(log, to, kind=form.kind, fields=form.fields, size=size, seed=seed)
    return said(*_sampled(made), f"wrote {many(len(made.queries), 'query')} to {to}")


@command(queries)
def drift(
    sample: Annotated[Path, typer.Argument(help="The sample, as from-log wrote it.")],
    log: Log,
    form: LogForm,
) -> Result:
    """Compare a later log with the one that a sample was drawn from.

    Prints the shares of the requests by form and by whether results were found, then and now.
    Estimates from the sample how many of the later requests repeat queries of the earlier log.

    Example: harness queries drift out/queries.jsonl access.log.1 --format combined
    """
    from harness.logs.stage import drift as compare

    found = compare(sample, log, kind=form.kind, fields=form.fields)
    lines = [
        f"  {kind}: {found.then.get(kind, 0.0):.1%} then, {found.now.get(kind, 0.0):.1%} now"
        for kind in sorted(found.then.keys() | found.now.keys())
    ]
    return said(
        *lines,
        f"{found.distance:.1%} of {found.requests:,} requests are of another kind than then;"
        f" about {found.carried:.1%} repeat a query of the earlier log",
    )


@command(queries)
def pool(
    queries: Annotated[Path, typer.Argument(help="Queries as JSON lines, such as a sample.")],
    corpus: Corpus,
    arms: Arms,
    depth: Annotated[int, typer.Option(min=1, help="First documents of each arm.")],
    to: ToFile,
    *,
    grades: Annotated[int, typer.Option(min=1, help="The largest grade; the least is 0.")] = 1,
) -> Result:
    """Write the first pool for queries without judgements: what each engine shows first.

    The pairs of a query stand in a drawn order; OUT.jsonl has the texts. `harness judge` fills the
    pool in, also in part, and `harness import jsonl CORPUS QUERIES OUT` makes a data set of it.

    Example: harness queries pool out/queries.jsonl corpus.jsonl --arms fts5,tantivy --depth 5
    --out out/pool.qrels
    """
    from harness.core.files import scratch
    from harness.core.folders import check_apart
    from harness.corpus import beir
    from harness.logs.stage import first_pool
    from harness.pipeline.layout import Layout

    project = Project.here()
    check_apart(to, (queries, corpus, *project.sources))
    with scratch() as work:
        layout = Layout(work / "build" / "sample", work / "perf", work / "cache")
        made = first_pool(
            layout,
            tuple(beir.documents(corpus)),
            tuple(beir.queries(queries)),
            arms=list(listed(arms)),
            cache=project.cache,
            params=project.params.replay,
            depth=depth,
            largest=grades,
            path=to,
        )
    asked = len({pair.query_id for pair in made.pairs})
    return said(
        f"wrote {counted(len(made.pairs), 'pair')} of {asked:,} queries to {to}; judge them:"
        f" harness judge {to}"
    )


def _sampled(sample: LogSample) -> Iterator[str]:
    from harness.logs.querylog import LIMITS

    counts = sample.counts
    yield f"{counts.requests:,} of {counts.lines:,} lines are requests that count"
    for why, number in sorted(counts.left.items()):
        yield f"  {number:,} left out: {why}"
    if counts.untold:
        yield f"  {counted(counts.untold, 'request has')} no text in a shadow log: both arms agreed"
    if counts.foreign:
        yield f"  {counted(counts.foreign, 'line was')} read as Windows-1252"
    for kind, number in sorted(counts.masked.items()):
        yield f"  {counted(number, 'request')} masked: {kind}"
    for limit in LIMITS:
        yield f"  limit of masking: {limit}"
    for name, row in sample.strata.items():
        yield (
            f"  {name}: {row.sampled:,} of {row.queries:,} queries,"
            f" {counted(row.requests, 'request')}"
        )
