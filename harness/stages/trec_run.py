"""A TREC run of somebody's engine, taken in as an arm that was replayed elsewhere."""

from __future__ import annotations

from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from sys import intern
from typing import NamedTuple

import numpy as np

from harness.core import digest
from harness.core.engine import IMPORTED, Manifest
from harness.core.errors import DatasetError
from harness.core.files import write_json
from harness.core.printable import many
from harness.core.run import Run, Status
from harness.corpus import trec
from harness.corpus.cells import EXAMPLES, examples
from harness.corpus.prepared import Prepared
from harness.stages.custody.receipts import note_replayed, record_run
from harness.stages.layout import Layout


class Taken(NamedTuple):
    """A run that was taken in."""

    run: Run
    strange: tuple[str, ...]
    """Queries of the file that the data set does not know at all."""

    @property
    def said(self) -> tuple[str, ...]:
        """Say what the file lacks or has too much, and what to do."""
        found = []
        if count := self.run.count(Status.NOT_ASKED):
            found.append(
                f"{count:,} of {len(self.run):,} queries have no line: they are lost, and count"
                " against every candidate; where the engine found nothing for them, say --missing"
                " empty"
            )
        if self.strange:
            found.append(
                f"{many(len(self.strange), 'query is')} not in the data set and left out, for"
                f" example {', '.join(self.strange[:EXAMPLES])}"
            )
        return tuple(found)


def import_run(
    layout: Layout, arm: str, file: Path, *, missing: trec.Missing = trec.Missing.LOST
) -> Taken:
    """Write the file's rankings as the run of ``arm``, and a manifest that names the file.

    A query without a line is what ``missing`` says: NOT_ASKED, which has no score, or an empty
    answer, which scores 0; who takes it for an answer has another arm. Queries of another split are
    left out. Queries that no split has are left out where the file answers every query; otherwise
    they may be those that seem to be missing. No one can be queried once more, so the second run is
    the first, and such an arm cannot race. A TREC run does not say when it was made, so its age
    counts from when it is taken in.

    Raises:
        BadFile: the file is malformed or empty.
        DatasetError: it shows documents that the corpus does not have, or has queries that the
            data set does not have and lacks some that it has.
    """
    data = Prepared.open(layout.data)
    asked = [query.query_id for query in data.queries()]
    read = trec.read_run(file, arm, asked, missing=missing)
    manifest = Manifest(
        engine=IMPORTED,
        version=f"sha256 {digest.of_file(file)}",
        documents=data.manifest.documents,
        corpus_sha256=data.manifest.corpus_sha256,
        settings_sha256=digest.of_json({"missing": missing}),
    )
    without = [q for q, shown in zip(read.query_ids, read.lengths, strict=True) if not shown]
    others = set(read.query_ids[len(asked) :]) - data.ids().elsewhere
    name = data.manifest.name
    if others and without:
        raise DatasetError(
            f"{file}: has {many(len(others), 'query')} that {name} does not have (for example"
            f" {examples(others, without)}) and no line for {len(without)} of {len(asked)} that it"
            " has. Write ids as the data set does, or take such lines out"
        )
    corpus = {document.doc_id for document in data.documents()}
    if strange := set(read.vocabulary) - corpus:
        raise DatasetError(
            f"{file}: shows {many(len(strange), 'document')} that {name} does not"
            f" have (for example {examples(strange, corpus)}); give a run over this corpus"
        )
    run = read.only(asked)
    served_by = np.where(run.status == Status.ANSWERED, manifest.fingerprint, "").tolist()
    run = replace(run, served_by=tuple(map(intern, served_by)))
    write_json(layout.manifest(arm), asdict(manifest))
    run = record_run(layout, run)
    note_replayed(layout, arm, datetime.now(UTC))
    return Taken(run, tuple(sorted(others)))
