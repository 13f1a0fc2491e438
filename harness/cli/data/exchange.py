"""Data of other tools: ``harness import ratings`` and ``ir-datasets``, and ``harness convert``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli.base.app import out
from harness.cli.base.imports import Split, importing, shown
from harness.cli.base.places import name_of, own
from harness.cli.base.project import Project

if TYPE_CHECKING:
    from harness.stages.imports.collections import Target


def register(app: typer.Typer) -> None:
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
    from harness.cli.base.data import prepare
    from harness.core.durable.owned import CONVERT
    from harness.core.durable.scratch import scratch
    from harness.core.records import FIELDS
    from harness.corpus.exchange.formats import writer
    from harness.corpus.prepared import Prepared
    from harness.stages.imports.ratings import convert as write

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
    from harness.stages.imports.ratings import import_ratings

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
    from harness.stages.imports.ir_datasets import import_ir_datasets

    shown(import_ir_datasets(to, collection=collection, download=download))
