"""Stage ``import`` for mail: an mbox file becomes the corpus, queries come from files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from harness.core.durable.scratch import scratch
from harness.corpus import jsonl, mbox
from harness.stages.imports.collections import Target, import_jsonl
from harness.stages.imports.report import ImportReport


class MboxImport(NamedTuple):
    """What was taken over, and what is odd about single mails."""

    report: ImportReport
    notes: tuple[mbox.Note, ...]


def import_mbox(to: Target, *, mbox_file: Path, queries_file: Path, qrels_file: Path) -> MboxImport:
    """Register the mails of an mbox file; judgements name them by Message-ID, without brackets.

    Mail holds neither queries nor judgements: both are JSON lines and TREC lines as in
    ``import_jsonl``. What is odd about mails is counted on the card.

    Raises:
        BadFile, DatasetError: as ``import_jsonl``.
    """
    found = mbox.read(mbox_file)
    odd = (*to.about.warnings, *mbox.problems_of(found))
    with scratch() as folder:
        corpus = folder / "corpus.jsonl"
        jsonl.write_documents(corpus, found.documents)
        report = import_jsonl(
            replace(to, about=replace(to.about, warnings=odd)),
            corpus_file=corpus,
            queries_file=queries_file,
            qrels_file=qrels_file,
        )
    return MboxImport(report, found.notes)
