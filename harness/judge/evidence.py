"""Judged samples of unjudged hits as evidence."""

from __future__ import annotations

from harness.core.evidence import ArmResult, Samples
from harness.core.parts import EvidenceKind
from harness.judge.pool import labels_in, samples_in
from harness.pipeline.layout import Layout


def collect(layout: Layout, control: ArmResult, candidate: ArmResult) -> Samples | None:
    """Read the judged samples of all comparisons."""
    del control, candidate
    return Samples(samples_in(layout)) or None


KIND: EvidenceKind[Layout, Samples] = EvidenceKind(
    name="judge", value=Samples, collect=collect, artifacts=labels_in
)
