"""Commands for data: imports and conversions."""

from pathlib import Path
from typing import Annotated

import typer

from harness.cli.command import Result, app, command, group, said
from harness.cli.options import Corpus, Fields, Forms, Imported, Split, ToFolder, imported, prepare
from harness.cli.project import Project, name_of, own

Qrels = Annotated[Path, typer.Argument(help="Judgements: QUERY 0 DOCUMENT GRADE lines.")]
imports = group("import", "Import a collection and write its card.")


@command(app)
def convert(
    dataset: Annotated[str, typer.Argument(help="A folder of datasets/, or one in BEIR layout.")],
    kind: Annotated[
        str,
        typer.Option("--format", help="beir, trec, quepid or rank-eval."),
    ],
    to: ToFolder,
    split: Split = "test",
) -> Result:
    """Write queries and judgements in the format of another tool, with documents where it has them.

    beir and trec hold the documents; the others name them by their ids. The folder
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
    kind: Annotated[str, typer.Option("--format", help="quepid or rank-eval.")],
    text: Annotated[
        str, typer.Option(help="Key of the query's text in rank-eval requests. [found]")
    ] = "",
) -> Result:
    """Import queries and ratings of Quepid, Elasticsearch or OpenSearch.

    quepid is the CSV of a case, rank-eval a request of the ranking evaluation API.
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
) -> Result:
    """Import a collection of ir_datasets, which downloads what it does not have on this machine.

    It needs the extra ir-datasets.

    Example: harness import ir-datasets beir/scifact/test --name scifact
    """
    from harness.pipeline.imports import import_ir_datasets

    return imported(import_ir_datasets(to.target(), collection=collection))


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
    report, odd = import_mbox(to.target(), **files)
    notes = (f"  mail {note.number} ({note.doc_id}): {note.problem}" for note in odd)
    return imported(report, *notes)
