"""Ratings of other tools as a data set, and a data set in the format of another tool."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from harness.core.printable import many
from harness.corpus import jsonl
from harness.corpus.exchange.formats import Data, reader, writer
from harness.corpus.prepared import Prepared
from harness.stages.imports.collections import Given, Target, register
from harness.stages.imports.report import ImportReport


def import_ratings(
    to: Target, *, kind: str, ratings_file: Path, corpus_file: Path, text: str = ""
) -> ImportReport:
    """Register the ratings of a format of ``harness.corpus.exchange.formats``.

    ``text`` is the key of a query's text, where a format has several.

    Raises:
        UnknownName: the format is unknown.
        BadFile, DatasetError: a file is malformed, or as ``import_beir``.
    """
    found = reader(kind)(ratings_file, text)
    odd = f"{many(found.unrated, 'pair was')} listed without a rating and left out."
    about = to.about
    if found.unrated:
        about = replace(about, warnings=(*about.warnings, odd))
    given = Given(
        lambda: jsonl.documents(corpus_file),
        found.queries,
        found.qrels,
        (ratings_file, corpus_file),
    )
    return register(given, replace(to, about=about))


def convert(data: Prepared, name: str, kind: str, to: Path) -> tuple[Path, ...]:
    """Write prepared data into the folder ``to``; give the files.

    Raises:
        UnknownName: the format is unknown.
        DatasetError: the format cannot carry the data.
    """
    write = writer(kind)
    write(to, Data(name, data.documents, tuple(data.queries()), data.qrels()))
    return tuple(sorted(path for path in to.rglob("*") if path.is_file()))
