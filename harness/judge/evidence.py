"""Judged samples of unjudged hits as evidence."""

from pathlib import Path

from harness.core.evidence import ArmResult, Samples
from harness.core.parts import EvidenceKind
from harness.corpus import judgements
from harness.pipeline.layout import Layout


def folder_of(layout: Layout) -> Path:
    """Return where samples that were taken in lie: a file a sample."""
    return layout.root / "labels"


def labels_in(layout: Layout) -> tuple[Path, ...]:
    """List the samples that were taken in."""
    return tuple(sorted(folder_of(layout).glob("*.sample.json")))


def collect(layout: Layout, control: ArmResult, candidate: ArmResult) -> Samples | None:
    """Read the judged samples of all comparisons."""
    del control, candidate
    samples = map(judgements.SAMPLES.read, labels_in(layout))
    return Samples({one.key: one for one in samples}) or None


KIND: EvidenceKind[Layout, Samples] = EvidenceKind(
    name="judge", value=Samples, collect=collect, artifacts=labels_in
)
