"""What one run of two engines with a race reads: evidence once, a run once a stage."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.core import digest
from harness.core.store import Artifact
from harness.corpus import beir, runs
from harness.pipeline import evidence, receipts, report_inputs
from tests import cold
from tests.make.toy import Toy
from tests.pipeline.test_oneshot import Shot

pytestmark = pytest.mark.slow


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Count calls by what they read."""
    calls: Counter[str] = Counter()

    def watch(module: Any, name: str, told: Callable[[Path], str]) -> None:  # noqa: ANN401  a module
        real = getattr(module, name)

        def seen(first: Any, *args: Any, **how: Any) -> Any:  # noqa: ANN401  as the real one
            calls[told(first)] += 1
            return real(first, *args, **how)

        monkeypatch.setattr(module, name, seen)

    watch(runs, "table_of", lambda path: path.name)
    monkeypatch.setattr(Artifact, "write", cold.handing_on)
    watch(digest, "_of_bytes_in", lambda _: "digest")
    monkeypatch.setattr(digest, "SETTLED_NS", 0)  # a toy's files are younger on a quick machine
    watch(receipts, "_read", lambda path: path.name)
    watch(beir, "queries", lambda path: f"{path.parent.name}/{path.name}")
    watch(report_inputs, "latency", lambda _: "latency")
    for name in ("sides", "gathered", "read_race"):
        watch(evidence, name, lambda _, name=name: name)  # type: ignore[misc]
    return calls


def test_evidence_is_read_once(project: Toy, tmp_path: Path, counted: Counter[str]) -> None:
    """What a stage wrote, the next ones of the same process do not read."""
    Shot(project, tmp_path / "out").fire(arms=("fts5", "tantivy"), timed=True)
    assert [counted[what] for what in ("sides", "gathered", "read_race", "latency")] == [1] * 4
    names = ("fts5", "tantivy", "fts5.again", "per_query", "agreement", "classes")
    assert [counted[f"{name}.parquet"] for name in names] == [0] * len(names)
    assert counted["data/queries.jsonl"] <= 1
    assert counted["digest"] <= 20  # 14 to 16, most of them files of the two indexes; 117 unknown
    receipts = sum(count for name, count in counted.items() if name.endswith("receipt.json"))
    assert receipts == 11
