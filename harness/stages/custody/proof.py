"""What an arm proves itself by: its manifest, and runs made from the index and data at hand."""

from __future__ import annotations

from pathlib import Path

from harness.core.engine import Manifest
from harness.core.errors import BadFile, EvidenceError, IndexNotReady
from harness.core.formats import json_file
from harness.core.printable import many
from harness.core.run import Run
from harness.corpus.cells.identity import without_own
from harness.corpus.prepared import QUERIES, Prepared
from harness.corpus.runs import read_run, write_run
from harness.stages.custody import receipt
from harness.stages.layout import Layout

SAMPLE = 50
"""Queries of a second replay that asks a sample: an engine that is not steady shows in fewer."""


def read_manifest(layout: Layout, arm: str) -> Manifest:
    """Read what stage ``index`` handed on.

    Raises:
        IndexNotReady: the stage did not run for this arm.
        BadFile: the file is not a manifest.
    """
    path = layout.manifest(arm)
    if not path.is_file():
        raise IndexNotReady(f"{path}: the arm {arm} has no index. {_index(layout, arm)}")
    try:
        return Manifest(**json_file(path))
    except (ValueError, TypeError) as exc:
        raise BadFile(path, f"not a manifest ({exc})", _index(layout, arm)) from exc


def check_same(layout: Layout, arm: str, wanted: Manifest, opened: Manifest) -> None:
    """Compare an opened index with what stage ``index`` handed on.

    Raises:
        IndexNotReady: it is another index.
    """
    if opened != wanted:
        raise IndexNotReady(
            f"{layout.index(arm)}: is not the index that {layout.manifest(arm)} describes"
            f" ({opened.fingerprint[:12]} instead of {wanted.fingerprint[:12]})."
            f" {_index(layout, arm)}"
        )


def check_corpus(layout: Layout, arm: str, made: Manifest, data: Prepared) -> None:
    """Hold an arm's index against the documents, as they are now.

    Raises:
        IndexNotReady: it was built of others.
    """
    if made.corpus_sha256 != data.manifest.corpus_sha256:
        raise IndexNotReady(
            f"{layout.manifest(arm)}: the index was built of other documents than those in"
            f" {layout.data}. {_index(layout, arm)}"
        )


def record_run(layout: Layout, first: Run, again: Run | None = None) -> Run:
    """Write an arm's runs, without hits that are the query itself; give the first.

    A run that came as a file has no second one: it stands for both.
    """
    own = Prepared.open(layout.data).ids().own
    shown = without_own(first, own)
    write_run(without_own(again, own) if again else shown, layout.again(first.arm))
    write_run(shown, layout.run(first.arm))
    note_run(layout, first.arm)
    return shown


def read_twice(layout: Layout, arm: str) -> tuple[Run, Run]:
    """Read both replays of an arm, of the queries that the second one asked.

    Raises:
        BadFile: a file is missing or no run.
        EvidenceError: the second one asked fewer queries than a sample has.
    """
    first, again = read_run(layout.run(arm)), read_run(layout.again(arm))
    if len(again) < min(SAMPLE, len(first)):
        raise EvidenceError(
            f"{layout.again(arm)}: has {many(len(again), 'query')} of {len(first)}, and a sample"
            f" has {SAMPLE}. Run: harness replay --dataset {layout.root.name} --arm {arm}"
        )
    return first if len(again) == len(first) else first.only(again.query_ids), again


def note_run(layout: Layout, arm: str) -> None:
    """Note what the arm's two runs were made from."""
    receipt.write(layout.run_receipt(arm), _files(layout, arm))


def check_run(layout: Layout, arm: str) -> None:
    """Hold an arm's runs against its index and the data, as they are now.

    Raises:
        EvidenceError: the arm was not replayed, or something was changed since.
        IndexNotReady: it has no index, or one of other documents.
    """
    check_corpus(layout, arm, read_manifest(layout, arm), Prepared.open(layout.data))
    hint = f"Run: harness replay --dataset {layout.root.name} --arm {arm}"
    receipt.check(layout.run_receipt(arm), _files(layout, arm), hint)


def _files(layout: Layout, arm: str) -> tuple[Path, ...]:
    return (
        layout.data / QUERIES,
        layout.manifest(arm),
        layout.run(arm),
        layout.again(arm),
    )


def _index(layout: Layout, arm: str) -> str:
    return f"Run: harness index --dataset {layout.root.name} --arm {arm}"
