"""Commands for data: imports, conversions and query sets of logs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli.app import Fields, Forms, Split, importing, out, shown
from harness.cli.exit_codes import aside
from harness.cli.project import Project, name_of, own
from harness.core.printable import counted, many

if TYPE_CHECKING:
    from harness.corpus.querylog import Fields as LogFields
    from harness.stages.imports import Target
    from harness.stages.queries import Drift, SampleCard


def register_exchange(app: typer.Typer) -> None:
    """Put ``convert`` on the command line."""
    app.command()(convert)


def convert(
    dataset: Annotated[str, typer.Argument(help="A folder of datasets/, or one in BEIR layout.")],
    kind: Annotated[
        str,
        typer.Option("--to", help="beir, trec, ir-datasets, quepid, rank-eval, opensearch or ltr."),
    ],
    to: Annotated[Path, typer.Option("--out", help="Folder for the files.")],
    split: Split = "test",
) -> None:
    """Write queries and judgements in the format of another tool, with documents where it has them.

    beir, trec and ir-datasets hold the documents; the others name them by their ids. The folder
    must be new, empty or of an earlier convert. `harness import` reads each format back.

    Example: harness convert python-docs --to quepid --out out/quepid
    """
    from harness.cli.app import prepare
    from harness.core.files import scratch
    from harness.core.folders import CONVERT
    from harness.core.records import FIELDS
    from harness.corpus.exchange import writer
    from harness.corpus.prepared import Prepared
    from harness.stages.imports import convert as write

    writer(kind)
    folder = Path(dataset)
    own(to, CONVERT, folder if folder.is_dir() else None)
    with scratch() as work:
        prepare(Project.here(), dataset, work / "data", split, ",".join(FIELDS), forms=False)
        for file in write(Prepared.open(work / "data"), name_of(dataset), kind, to):
            out.print(str(file), markup=False)


@importing
def ratings(
    path: Annotated[Path, typer.Argument(help="Ratings, as another tool exports them.")],
    corpus: Annotated[Path, typer.Argument(help="Documents as JSON lines.")],
    *,
    to: Target,
    kind: Annotated[str, typer.Option("--format", help="quepid, rank-eval, opensearch or ltr.")],
    text: Annotated[
        str, typer.Option(help="Key of the query's text in rank-eval requests. [found]")
    ] = "",
) -> None:
    """Import queries and ratings of Quepid, Elasticsearch or OpenSearch.

    quepid is the CSV of a case, rank-eval a request of the ranking evaluation API, opensearch a
    judgement list of the Search Relevance Workbench, ltr one of the learning-to-rank plugins.
    Where queries have no ids, their texts become ids. Pairs without a rating are left out, and
    counted.

    Example: harness import ratings case.csv corpus.jsonl --format quepid --name mine
    """
    from harness.stages.imports import import_ratings

    shown(import_ratings(to, kind=kind, ratings_file=path, corpus_file=corpus, text=text))


@importing
def ir_datasets(
    collection: Annotated[str, typer.Argument(help="Its id, such as beir/scifact/test.")],
    *,
    to: Target,
    download: Annotated[
        bool, typer.Option("--download", help="Let ir_datasets fetch what is not here.")
    ] = False,
) -> None:
    """Import a collection of ir_datasets, from the files that it has on this machine.

    Nothing is downloaded without --download. It needs the extra ir-datasets.

    Example: harness import ir-datasets beir/scifact/test --name scifact --download
    """
    from harness.stages.imports import import_ir_datasets

    shown(import_ir_datasets(to, collection=collection, download=download))


def register_importing(app: typer.Typer) -> None:
    """Put ``import`` on the command line."""
    group = typer.Typer(no_args_is_help=True, help="Import a collection and write its card.")
    group.command("beir")(beir)
    group.command("trec")(trec)
    group.command("jsonl")(jsonl)
    group.command("mbox")(mbox)
    group.command("ratings")(ratings)
    group.command("ir-datasets")(ir_datasets)
    app.add_typer(group, name="import")


@importing
def beir(
    path: Annotated[Path, typer.Argument(help="Folder: corpus.jsonl[.gz], queries, qrels/.")],
    *,
    to: Target,
    fields: Fields = "title,text",
    forms: Forms = False,
) -> None:
    """Import a folder in BEIR layout.

    Counts are checked, duplicate ids are errors, judgements of unknown documents or queries are
    reported by id, and never dropped in silence.

    Example, where the titles would give the answers away:
    harness import beir FOLDER --name mine --fields text --forms
    """
    from harness.corpus.beir import fields as named
    from harness.stages.imports import import_beir

    shown(import_beir(path, to, fields=named(fields), forms=forms))


@importing
def trec(
    topics: Annotated[Path, typer.Argument(help="Topics: <top> blocks, or ID<tab>TEXT lines.")],
    qrels: Annotated[Path, typer.Argument(help="Judgements: QUERY 0 DOCUMENT GRADE lines.")],
    corpus: Annotated[Path, typer.Argument(help="Documents as JSON lines.")],
    *,
    to: Target,
) -> None:
    """Import TREC topics and judgements with documents as JSON lines."""
    from harness.stages.imports import import_trec

    shown(
        import_trec(
            to,
            topics_file=topics,
            qrels_file=qrels,
            corpus_file=corpus,
        )
    )


@importing
def jsonl(
    corpus: Annotated[Path, typer.Argument(help="Documents: doc_id (or _id), title, text.")],
    queries: Annotated[Path, typer.Argument(help="Queries: query_id (or _id), text.")],
    qrels: Annotated[Path, typer.Argument(help="Judgements: QUERY 0 DOCUMENT GRADE lines.")],
    *,
    to: Target,
) -> None:
    """Import documents and queries as JSON lines with TREC judgements, or with a judged pool."""
    from harness.stages.imports import import_jsonl

    shown(
        import_jsonl(
            to,
            corpus_file=corpus,
            queries_file=queries,
            qrels_file=qrels,
        )
    )


@importing
def mbox(
    path: Annotated[Path, typer.Argument(help="Mail: one mbox file.")],
    *,
    to: Target,
    queries: Annotated[Path, typer.Option(help="Queries as JSON lines: query_id, text.")],
    qrels: Annotated[Path, typer.Option(help="Judgements: QUERY 0 MESSAGE-ID GRADE lines.")],
) -> None:
    """Import mail from an mbox file; queries and judgements come from files of their own.

    A mail is named by its Message-ID without brackets. Mails that are malformed are taken over as
    far as they can be read, and reported.
    """
    from harness.stages.imports import import_mbox

    mbox_import = import_mbox(
        to,
        mbox_file=path,
        queries_file=queries,
        qrels_file=qrels,
    )
    for note in mbox_import.notes:
        out.print(f"  mail {note.number} ({note.doc_id}): {note.problem}", markup=False)
    shown(mbox_import.report)


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


def register_queries(app: typer.Typer) -> None:
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
    from harness.core.folders import check_apart
    from harness.stages.queries import from_log as make

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
    from harness.stages.queries import drift as compare

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
    from harness.core.files import scratch
    from harness.core.folders import check_apart
    from harness.corpus import beir
    from harness.stages.layout import Layout
    from harness.stages.queries import first_pool

    project = Project.here()
    check_apart(to, (queries, corpus, *project.sources))
    named = [name.strip() for name in arms.split(",") if name.strip()]
    with scratch() as work, aside():
        layout = Layout(work / "build" / "sample", work / "perf", work / "cache")
        found = first_pool(
            layout,
            tuple(beir.documents(corpus)),
            tuple(beir.queries(queries)),
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


def _fields(text: str, results: str, session: str) -> LogFields:
    from harness.corpus.querylog import Fields

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
