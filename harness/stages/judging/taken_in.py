"""Labels of machines taken in as evidence of a data set, for the rule ``judge_trusted``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from harness.core.evidence import Evidence
from harness.core.files import write_text
from harness.core.qrels import Qrels
from harness.core.reading import text_of
from harness.corpus import labels
from harness.corpus.prepared import Prepared
from harness.stages.layout import Layout

FOLDER = "labels"


class TakenIn(NamedTuple):
    """What was taken in."""

    judge: str
    labels: int
    both: int
    """Pairs that the judgements of the data set have too."""


def take_in(layout: Layout, path: Path) -> TakenIn:
    """Copy the labels of one machine to the evidence of a data set, in the place of earlier ones.

    Raises:
        BadFile: it holds something else than labels of one machine.
    """
    found = labels.judgements(path, "machine")
    judge = labels.read(path)[0].by
    people = Prepared.open(layout.data).qrels().grades
    write_text(folder_of(layout) / f"{judge}.jsonl", text_of(path))
    rows = [*found.rows()]
    both = sum(doc_id in people.get(query_id, {}) for query_id, doc_id, _ in rows)
    return TakenIn(judge, len(rows), both)


def folder_of(layout: Layout) -> Path:
    """Say where labels that were taken in lie, a file a machine."""
    return layout.root / FOLDER


def labels_in(layout: Layout) -> tuple[Path, ...]:
    """List the labels that were taken in."""
    return tuple(sorted(folder_of(layout).glob("*.jsonl")))


def with_labels(layout: Layout, evidence: Mapping[str, Evidence]) -> dict[str, Evidence]:
    """Add the labels of each machine to each comparison.

    Raises:
        BadFile: a file is damaged.
    """
    found: dict[str, Qrels] = {
        path.stem: labels.judgements(path, "machine") for path in labels_in(layout)
    }
    return {name: replace(one, labels=found) for name, one in evidence.items()}
