"""``harness import``: other people's collections become data sets of this project."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli.base.app import out
from harness.cli.base.imports import Fields, Forms, importing, shown
from harness.cli.data.exchange import ir_datasets, ratings

if TYPE_CHECKING:
    from harness.stages.imports.collections import Target


def register(app: typer.Typer) -> None:
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
    from harness.stages.imports.collections import import_beir

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
    from harness.stages.imports.collections import import_trec

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
    from harness.stages.imports.collections import import_jsonl

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
    from harness.stages.imports.collections import import_mbox

    mbox_import = import_mbox(
        to,
        mbox_file=path,
        queries_file=queries,
        qrels_file=qrels,
    )
    for note in mbox_import.notes:
        out.print(f"  mail {note.number} ({note.doc_id}): {note.problem}", markup=False)
    shown(mbox_import.report)
