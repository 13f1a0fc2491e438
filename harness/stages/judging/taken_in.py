"""Judged samples, taken in as evidence of a data set."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from harness.core.errors import EvidenceError
from harness.core.evidence import Evidence, Key, Sample
from harness.core.printable import many
from harness.corpus import samples
from harness.stages.judging.sampling import HINT, standing
from harness.stages.layout import Layout

FOLDER = "labels"


def take_sample(layout: Layout, path: Path, by: str) -> Sample:
    """Copy a judged sample to the evidence, in the place of one of the same arms and measure.

    Raises:
        BadFile: the pool cannot be read.
        EvidenceError: it is not a sample, it is of other runs, or some of it is not judged.
    """
    seen = standing(path)
    if seen is None:
        raise EvidenceError(f"{path}: is not a sample. {HINT}")
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
    """Say where they lie: a file a sample."""
    return layout.root / FOLDER


def labels_in(layout: Layout) -> tuple[Path, ...]:
    """List the samples that were taken in."""
    return _samples(layout)


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


def _samples(layout: Layout) -> tuple[Path, ...]:
    return tuple(sorted(folder_of(layout).glob("*.sample.json")))
