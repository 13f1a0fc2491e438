"""A TREC run of somebody's engine, taken in as an arm that was replayed elsewhere."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from harness.core import digest
from harness.core.engine import IMPORTED, Manifest
from harness.core.errors import DatasetError
from harness.core.files import write_json
from harness.core.printable import many
from harness.core.run import Row, Run, Status
from harness.corpus import trec
from harness.corpus.prepared import Prepared
from harness.corpus.runs import write_run
from harness.stages.custody.freshness import note_replayed
from harness.stages.custody.proof import note_run
from harness.stages.layout import Layout

EXAMPLES = 3


def import_run(
    layout: Layout, arm: str, file: Path, *, missing: trec.Missing = trec.Missing.LOST
) -> Run:
    """Write the file's rankings as the run of ``arm``, and a manifest that names the file.

    Queries that the file has and the data has not are left out. A query without a line is what
    ``missing`` says: NOT_ASKED, which has no score, or an empty answer, which scores 0; who takes
    it for an answer has another arm. No one can be queried once more, so the second run is the
    first, and such an arm cannot race. A TREC run does not say when it was made, so its age counts
    from when it is taken in.

    Raises:
        BadFile: the file is malformed or empty.
        DatasetError: it shows documents that the corpus does not have.
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
    strange = sorted(set(read.vocabulary) - {document.doc_id for document in data.documents()})
    if strange:
        raise DatasetError(
            f"{file}: shows {many(len(strange), 'document')} that {data.manifest.name} does not"
            f" have (for example {', '.join(strange[:EXAMPLES])}); give a run over this corpus"
        )
    known = frozenset(asked)
    run = Run.of(arm, (_signed(row, manifest) for row in read.rows() if row.query_id in known))
    write_run(run, layout.run(arm))
    write_run(run, layout.again(arm))
    write_json(layout.manifest(arm), asdict(manifest))
    note_run(layout, arm)
    note_replayed(layout, arm, datetime.now(UTC))
    return run


def left_out(run: Run) -> str:
    """Say how many queries an imported run leaves out, and what to do; empty where none."""
    count = run.count(Status.NOT_ASKED)
    return (
        f"{count:,} of {len(run):,} queries have no line: they are lost, and count against every"
        " candidate; where the engine found nothing for them, say --missing empty"
        if count
        else ""
    )


def _signed(row: Row, manifest: Manifest) -> Row:
    return row._replace(served_by=manifest.fingerprint) if row.status is Status.ANSWERED else row
