"""Stage ``import`` for mail: an mbox file becomes the corpus, queries come from files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from harness.core.durable.scratch import scratch
from harness.corpus import jsonl, mbox
from harness.stages.imports.collections import import_jsonl
from harness.stages.imports.report import NOTHING_STATED, About, ImportReport


class MboxImport(NamedTuple):
    """What was taken over, and what is odd about single mails."""

    report: ImportReport
    notes: tuple[mbox.Note, ...]


def import_mbox(
    name: str,
    datasets: Path,
    qrels: Path,
    *,
    mbox_file: Path,
    queries_file: Path,
    qrels_file: Path,
    split: str,
    about: About = NOTHING_STATED,
    allow_dangling: bool = False,
    force: bool = False,
) -> MboxImport:
    """Register the mails of an mbox file; judgements name them by Message-ID, without brackets.

    Mail holds neither queries nor judgements: both are JSON lines and TREC lines as in
    ``import_jsonl``. What is odd about mails is counted on the card.

    Raises:
        BadFile, DatasetError: as ``import_jsonl``.
    """
    found = mbox.read(mbox_file)
    odd = (*about.warnings, *mbox.problems_of(found))
    with scratch() as folder:
        corpus = folder / "corpus.jsonl"
        jsonl.write_documents(corpus, found.documents)
        report = import_jsonl(
            name,
            datasets,
            qrels,
            corpus_file=corpus,
            queries_file=queries_file,
            qrels_file=qrels_file,
            split=split,
            about=replace(about, warnings=odd),
            allow_dangling=allow_dangling,
            force=force,
        )
    return MboxImport(report, found.notes)
