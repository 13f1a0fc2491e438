"""Where the numbers come from: data, arms, code, packages, machine, time."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from harness.core.batches import code_sha256
from harness.core.evidence import ArmResult
from harness.corpus.prepared import Prepared
from harness.replay.machine import machine
from harness.report.inputs import Provenance

PACKAGES = (
    "ir-measures",
    "numkong",
    "numpy",
    "onnxruntime",
    "pyarrow",
    "scipy",
    "tantivy",
    "tokenizers",
)


def provenance(
    data: Prepared,
    arms: Mapping[str, ArmResult],
    *,
    licence: str,
    source: str,
    seed: int,
    commands: Sequence[str],
    decided_at: datetime,
    evidence_days: int | None,
    replayed_at: Mapping[str, str],
    settings: Mapping[str, Mapping[str, Any]],
) -> Provenance:
    """Collect what a stranger needs to make the numbers again."""
    about = data.manifest
    expires = None if evidence_days is None else decided_at + timedelta(days=evidence_days)
    return Provenance(
        dataset=about.name,
        licence=licence,
        source=source,
        corpus_sha256=about.corpus_sha256,
        queries_sha256=about.queries_sha256,
        qrels_sha256=about.qrels_sha256,
        documents=about.documents,
        fields=about.fields,
        queries=about.queries,
        judgements=about.judgements,
        manifests={arm: side.manifest for arm, side in arms.items()},
        packages=versions(),
        python=platform.python_version(),
        code_version=code_sha256(),
        seed=seed,
        commands=tuple(commands),
        machine=machine(),
        decided_at=decided_at.isoformat(timespec="seconds"),
        expires_at=expires.isoformat(timespec="seconds") if expires else None,
        replayed_at=replayed_at,
        settings=settings,
    )


def versions() -> dict[str, str]:
    """Return the version of each installed package that moves a number."""
    found = {}
    for name in PACKAGES:
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found
