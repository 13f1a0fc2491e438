"""Live traffic as evidence: its files and its gates."""

from __future__ import annotations

from harness.core.evidence import Traffic
from harness.core.parts import EvidenceKind
from harness.pipeline.layout import Layout
from harness.shadow.traffic import read_traffic, taken_in

GATES = ("anytime_failures", "anytime_overlap", "anytime_slow")
KIND: EvidenceKind[Layout, Traffic] = EvidenceKind(
    name="shadow",
    value=Traffic,
    collect=read_traffic,
    artifacts=taken_in,
    rules={rule: f"harness.shadow.{rule}" for rule in GATES},
)
