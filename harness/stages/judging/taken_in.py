"""Labels of machines and judged samples, taken in as evidence of a data set."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from harness.core.errors import EvidenceError
from harness.core.evidence import Evidence, Key, Sample
from harness.core.files import write_text
from harness.core.printable import many
from harness.core.qrels import Qrels
from harness.core.reading import text_of
from harness.corpus import labels, samples
from harness.corpus.prepared import Prepared
from harness.stages.judging.sampling import HINT, standing
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


def take_sample(layout: Layout, path: Path, by: str) -> Sample:
    """Copy a judged sample to the evidence, in the place of one of the same arms and measure.

    Raises:
        BadFile: the pool cannot be read.
        EvidenceError: it is no sample, it is of other runs, or some of it is not judged.
    """
    seen = standing(path)
    if seen is None:
        raise EvidenceError(f"{path}: is no sample. {HINT}")
    if left := len(seen.judged.left):
        raise EvidenceError(
            f"{path}: {many(left, 'pair')} of the sample are not judged; judge them: harness judge"
            f" {path}"
        )
    found = seen.drawing.sample(seen.pool, by)
    folder_of(layout).mkdir(parents=True, exist_ok=True)
    samples.write(folder_of(layout), found)
    return found


def folder_of(layout: Layout) -> Path:
    """Say where they lie: a file a machine, and a file a sample."""
    return layout.root / FOLDER


def labels_in(layout: Layout) -> tuple[Path, ...]:
    """List the labels and the samples that were taken in."""
    return (*_machines(layout), *_samples(layout))


def with_labels(layout: Layout, evidence: Mapping[str, Evidence]) -> dict[str, Evidence]:
    """Add the labels of each machine to each comparison.

    Raises:
        BadFile: a file is damaged.
    """
    found: dict[str, Qrels] = {
        path.stem: labels.judgements(path, "machine") for path in _machines(layout)
    }
    return {name: replace(one, labels=found) for name, one in evidence.items()}


def with_samples(layout: Layout, evidence: Mapping[str, Evidence]) -> dict[str, Evidence]:
    """Add the judged samples to each comparison.

    Raises:
        BadFile: a file is damaged.
    """
    found = samples_in(layout)
    return {name: replace(one, samples=found) for name, one in evidence.items()}


def samples_in(layout: Layout) -> dict[Key, Sample]:
    """Read the judged samples.

    Raises:
        BadFile: a file is damaged.
    """
    return {one.key: one for one in map(samples.read, _samples(layout))}


def _machines(layout: Layout) -> tuple[Path, ...]:
    return tuple(sorted(folder_of(layout).glob("*.jsonl")))


def _samples(layout: Layout) -> tuple[Path, ...]:
    return tuple(sorted(folder_of(layout).glob("*.sample.json")))
