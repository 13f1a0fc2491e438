"""Commands for data: imports, conversions and query sets of logs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli.command import Options, Result, app, command, group, said
from harness.cli.options import (
    Arms,
    Fields,
    Forms,
    Imported,
    Seed,
    Split,
    ToFile,
    ToFolder,
    imported,
    listed,
    prepare,
)
from harness.cli.project import Project, name_of, own
from harness.core.printable import counted, many

if TYPE_CHECKING:
    from harness.logs.querylog import Fields as LogFields
    from harness.logs.stage import Drift, SampleCard

Corpus = Annotated[Path, typer.Argument(help="Documents as JSON lines: doc_id (or _id), text.")]
Qrels = Annotated[Path, typer.Argument(help="Judgements: QUERY 0 DOCUMENT GRADE lines.")]
imports = group("import", "Import a collection and write its card.")


@command(app)
def convert(
    dataset: Annotated[str, typer.Argument(help="A folder of datasets/, or one in BEIR layout.")],
    kind: Annotated[
        str,
        typer.Option(
            "--format", help="beir, trec, ir-datasets, quepid, rank-eval, opensearch or ltr."
        ),
    ],
    to: ToFolder,
    split: Split = "test",
) -> Result:
    """Write queries and judgements in the format of another tool, with documents where it has them.

    beir, trec and ir-datasets hold the documents; the others name them by their ids. The folder
    must be new, empty or of an earlier convert. `harness import` reads each format back.

    Example: harness convert python-docs --format quepid --out out/quepid
    """
    from harness.core.files import scratch
    from harness.core.folders import CONVERT
    from harness.core.records import FIELDS
    from harness.corpus.exchange import writer
    from harness.corpus.prepared import Prepared
    from harness.pipeline.imports import convert as write

    writer(kind)
    folder = Path(dataset)
    own(to, CONVERT, folder if folder.is_dir() else None)
    with scratch() as work:
        prepare(Project.here(), dataset, work / "data", split, ",".join(FIELDS), forms=False)
        files = write(Prepared.open(work / "data"), name_of(dataset), kind, to)
        return said(*map(str, files))


@command(imports)
def ratings(
    path: Annotated[Path, typer.Argument(help="Ratings, as another tool exports them.")],
    corpus: Corpus,
    to: Imported,
    kind: Annotated[str, typer.Option("--format", help="quepid, rank-eval, opensearch or ltr.")],
    text: Annotated[
        str, typer.Option(help="Key of the query's text in rank-eval requests. [found]")
    ] = "",
) -> Result:
    """Import queries and ratings of Quepid, Elasticsearch or OpenSearch.

    quepid is the CSV of a case, rank-eval a request of the ranking evaluation API, opensearch a
    judgement list of the Search Relevance Workbench, ltr one of the learning-to-rank plugins.
    Where queries have no ids, their texts become ids. Pairs without a rating are left out, and
    counted.

    Example: harness import ratings case.csv corpus.jsonl --format quepid --name mine
    """
    from harness.pipeline.imports import import_ratings

    files = {"ratings_file": path, "corpus_file": corpus}
    return imported(import_ratings(to.target(), kind=kind, text=text, **files))


@command(imports, "ir-datasets")
def ir_datasets(
    collection: Annotated[str, typer.Argument(help="Its id, such as beir/scifact/test.")],
    to: Imported,
    *,
    download: Annotated[
        bool, typer.Option("--download", help="Let ir_datasets fetch what is not here.")
    ] = False,
) -> Result:
    """Import a collection of ir_datasets, from the files that it has on this machine.

    Nothing is downloaded without --download. It needs the extra ir-datasets.

    Example: harness import ir-datasets beir/scifact/test --name scifact --download
    """
    from harness.pipeline.imports import import_ir_datasets

    return imported(import_ir_datasets(to.target(), collection=collection, download=download))


@command(imports)
def beir(
    path: Annotated[Path, typer.Argument(help="Folder: corpus.jsonl[.gz], queries, qrels/.")],
    to: Imported,
    *,
    fields: Fields = "title,text",
    forms: Forms = False,
) -> Result:
    """Import a folder in BEIR layout.

    Counts are checked, duplicate ids are errors, judgements of unknown documents or queries are
    reported by id, and never dropped in silence.

    Example, where the titles would give the answers away:
    harness import beir FOLDER --name mine --fields text --forms
    """
    from harness.corpus.beir import fields as named
    from harness.pipeline.imports import import_beir

    return imported(import_beir(path, to.target(), fields=named(fields), forms=forms))


@command(imports)
def trec(
    topics: Annotated[Path, typer.Argument(help="Topics: <top> blocks, or ID<tab>TEXT lines.")],
    qrels: Qrels,
    corpus: Corpus,
    to: Imported,
) -> Result:
    """Import TREC topics and judgements with documents as JSON lines."""
    from harness.pipeline.imports import import_trec

    files = {"topics_file": topics, "qrels_file": qrels, "corpus_file": corpus}
    return imported(import_trec(to.target(), **files))


@command(imports)
def jsonl(
    corpus: Corpus,
    queries: Annotated[Path, typer.Argument(help="Queries: query_id (or _id), text.")],
    qrels: Qrels,
    to: Imported,
) -> Result:
    """Import documents and queries as JSON lines with TREC judgements, or with a judged pool."""
    from harness.pipeline.imports import import_jsonl

    files = {"corpus_file": corpus, "queries_file": queries, "qrels_file": qrels}
    return imported(import_jsonl(to.target(), **files))


@command(imports)
def mbox(
    path: Annotated[Path, typer.Argument(help="Mail: one mbox file.")],
    to: Imported,
    queries: Annotated[Path, typer.Option(help="Queries as JSON lines: query_id, text.")],
    qrels: Annotated[Path, typer.Option(help="Judgements: QUERY 0 MESSAGE-ID GRADE lines.")],
) -> Result:
    """Import mail from an mbox file; queries and judgements come from files of their own.

    A mail is named by its Message-ID without brackets. Mails that are malformed are taken over as
    far as they can be read, and reported.
    """
    from harness.pipeline.imports import import_mbox

    files = {"mbox_file": path, "queries_file": queries, "qrels_file": qrels}
    found = import_mbox(to.target(), **files)
    notes = (f"  mail {note.number} ({note.doc_id}): {note.problem}" for note in found.notes)
    return imported(found.report, *notes)


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
    """Sample a query set from a log, so that means over it speak of the traffic.

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
    return said(*_sampled(made.card), f"wrote {many(made.queries, 'query')} to {to}")


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

    return said(*_drifted(compare(sample, log, kind=form.kind, fields=form.fields)))


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
        found = first_pool(
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
    return said(
        f"wrote {counted(found.pairs, 'pair')} of {found.queries:,} queries to {to}; judge them:"
        f" harness judge {to}"
    )


def _sampled(card: SampleCard) -> Iterator[str]:
    yield f"{card.requests:,} of {card.lines:,} lines are requests that count"
    for why, number in card.left_out.items():
        yield f"  {number:,} left out: {why}"
    if card.untold_requests:
        yield (
            f"  {counted(card.untold_requests, 'request has')} no text in a shadow log: both arms"
            " agreed"
        )
    if card.foreign_lines:
        yield f"  {counted(card.foreign_lines, 'line was')} read as Windows-1252"
    for kind, number in card.masked.items():
        yield f"  {counted(number, 'request')} masked: {kind}"
    for limit in card.mask_limits:
        yield f"  limit of masking: {limit}"
    for name, row in card.strata.items():
        yield (
            f"  {name}: {row.sampled:,} of {row.queries:,} queries,"
            f" {counted(row.requests, 'request')}"
        )


def _drifted(found: Drift) -> Iterator[str]:
    for kind in sorted(found.then.keys() | found.now.keys()):
        then, now = found.then.get(kind, 0.0), found.now.get(kind, 0.0)
        yield f"  {kind}: {then:.1%} then, {now:.1%} now"
    yield (
        f"{found.distance:.1%} of {found.requests:,} requests are of another kind than then;"
        f" about {found.carried:.1%} repeat a query of the earlier log"
    )
