"""``harness import``: other people's collections become data sets of this project."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli.base.app import out
from harness.cli.base.project import Project

if TYPE_CHECKING:
    from harness.stages.imports.report import ImportReport

Name = Annotated[str, typer.Option(help="What the data set is to be called.")]
Split = Annotated[str, typer.Option(help="Which judgements.")]
Fields = Annotated[
    str, typer.Option(help="What is searched of a document: title,text or one of them.")
]
Forms = Annotated[
    bool, typer.Option("--forms", help="Slice queries by form: identifier, keyword, language.")
]
Title = Annotated[str, typer.Option(help="One line for the card.")]
Source = Annotated[str, typer.Option(help="Where it is from; for the card.")]
Licence = Annotated[str, typer.Option(help="Its terms; for the card.")]
Dangling = Annotated[
    bool, typer.Option(help="Keep judgements of documents or queries that do not exist.")
]
Force = Annotated[bool, typer.Option(help="Replace a data set of this name.")]
NOT_STATED = "not stated"


def register(app: typer.Typer) -> None:
    """Put ``import`` on the command line."""
    group = typer.Typer(no_args_is_help=True, help="Import a collection and write its card.")
    group.command("beir")(beir)
    group.command("trec")(trec)
    group.command("jsonl")(jsonl)
    group.command("mbox")(mbox)
    app.add_typer(group, name="import")


def beir(
    path: Annotated[Path, typer.Argument(help="Folder: corpus.jsonl[.gz], queries, qrels/.")],
    *,
    name: Name,
    split: Split = "test",
    fields: Fields = "title,text",
    forms: Forms = False,
    title: Title = NOT_STATED,
    source: Source = NOT_STATED,
    licence: Licence = NOT_STATED,
    allow_dangling: Dangling = False,
    force: Force = False,
) -> None:
    """Import a folder in BEIR layout.

    Counts are checked, duplicate ids are errors, judgements of unknown documents or queries are
    reported by id, and never dropped in silence.

    Example, where the titles would give the answers away:
    harness import beir FOLDER --name mine --fields text --forms
    """
    from harness.corpus.beir import fields as named
    from harness.stages.imports.collections import import_beir
    from harness.stages.imports.report import About

    root = Project.own().root
    _show(
        import_beir(
            path,
            name,
            root / "datasets",
            root / "qrels",
            split=split,
            fields=named(fields),
            forms=forms,
            about=About(title, source, licence),
            allow_dangling=allow_dangling,
            force=force,
        )
    )


def trec(
    topics: Annotated[Path, typer.Argument(help="Topics: <top> blocks, or ID<tab>TEXT lines.")],
    qrels: Annotated[Path, typer.Argument(help="Judgements: QUERY 0 DOCUMENT GRADE lines.")],
    corpus: Annotated[Path, typer.Argument(help="Documents as JSON lines.")],
    *,
    name: Name,
    split: Split = "test",
    title: Title = NOT_STATED,
    source: Source = NOT_STATED,
    licence: Licence = NOT_STATED,
    allow_dangling: Dangling = False,
    force: Force = False,
) -> None:
    """Import TREC topics and judgements with documents as JSON lines."""
    from harness.stages.imports.collections import import_trec
    from harness.stages.imports.report import About

    root = Project.own().root
    _show(
        import_trec(
            name,
            root / "datasets",
            root / "qrels",
            topics_file=topics,
            qrels_file=qrels,
            corpus_file=corpus,
            split=split,
            about=About(title, source, licence),
            allow_dangling=allow_dangling,
            force=force,
        )
    )


def jsonl(
    corpus: Annotated[Path, typer.Argument(help="Documents: doc_id (or _id), title, text.")],
    queries: Annotated[Path, typer.Argument(help="Queries: query_id (or _id), text.")],
    qrels: Annotated[Path, typer.Argument(help="Judgements: QUERY 0 DOCUMENT GRADE lines.")],
    *,
    name: Name,
    split: Split = "test",
    title: Title = NOT_STATED,
    source: Source = NOT_STATED,
    licence: Licence = NOT_STATED,
    allow_dangling: Dangling = False,
    force: Force = False,
) -> None:
    """Import documents and queries as JSON lines with TREC judgements."""
    from harness.stages.imports.collections import import_jsonl
    from harness.stages.imports.report import About

    root = Project.own().root
    _show(
        import_jsonl(
            name,
            root / "datasets",
            root / "qrels",
            corpus_file=corpus,
            queries_file=queries,
            qrels_file=qrels,
            split=split,
            about=About(title, source, licence),
            allow_dangling=allow_dangling,
            force=force,
        )
    )


def mbox(
    path: Annotated[Path, typer.Argument(help="Mail: one mbox file.")],
    *,
    name: Name,
    queries: Annotated[Path, typer.Option(help="Queries as JSON lines: query_id, text.")],
    qrels: Annotated[Path, typer.Option(help="Judgements: QUERY 0 MESSAGE-ID GRADE lines.")],
    split: Split = "test",
    title: Title = NOT_STATED,
    source: Source = NOT_STATED,
    licence: Licence = NOT_STATED,
    allow_dangling: Dangling = False,
    force: Force = False,
) -> None:
    """Import mail from an mbox file; queries and judgements come from files of their own.

    A mail is named by its Message-ID without brackets. Mails that are malformed are taken over as
    far as they can be read, and reported.
    """
    from harness.stages.imports.mbox import import_mbox
    from harness.stages.imports.report import About

    root = Project.own().root
    found = import_mbox(
        name,
        root / "datasets",
        root / "qrels",
        mbox_file=path,
        queries_file=queries,
        qrels_file=qrels,
        split=split,
        about=About(title, source, licence),
        allow_dangling=allow_dangling,
        force=force,
    )
    for note in found.notes:
        out.print(f"  mail {note.number} ({note.doc_id}): {note.problem}", markup=False)
    _show(found.report)


def _show(found: ImportReport) -> None:
    out.print(
        f"imported {found.name} ({found.split}): {found.documents} documents,"
        f" {found.queries} queries, {found.judgements} judgements"
    )
    for line in found.warnings:
        out.print(f"  note: {line}", markup=False)
    out.print(
        f"Add {found.name} to datasets in params.yaml, or: harness run --dataset {found.name}"
    )
