"""Files of version 0.1 that people keep: read as they were, or refused by name."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.core.engine import MANIFEST
from harness.core.errors import HarnessError
from harness.corpus.clusters import CLUSTER_FILE
from harness.corpus.judgements import read_held
from harness.corpus.prepared import DATA_MANIFEST
from harness.corpus.runs import read_run
from harness.load.files import TRIALS
from harness.migrate import ledger
from harness.pipeline.experiments import EXPERIMENTS
from harness.policy.load import load_policy
from harness.report import trends
from harness.report.decision import from_json
from harness.shadow.settings import read_suppressions
from tests.docs.pages import page

EARLIER = Path(__file__).parent / "earlier"
READ: dict[str, tuple[Callable[[Path], Any], Callable[[Any], object], object]] = {
    "run.parquet": (read_run, lambda run: (run.arm, len(run.query_ids)), ("fts5", 240)),
    "history.jsonl": (trends.read, lambda found: [one.dataset for one in found], ["data"]),
    "ledger.json": (lambda p: ledger.read(p.parent), lambda found: len(found.events), 1),
    "pool.qrels": (read_held, lambda found: list(found.grades), [1, 0, 1, 0]),
    "accepted.toml": (read_suppressions, lambda found: found.entries[0].by, "ada"),
    "load_trials.jsonl": (TRIALS.read, lambda found: found[0].trial.arrivals, 1999),
    "index_manifest.json": (MANIFEST.read, lambda found: found.documents, 240),
    "data_manifest.json": (DATA_MANIFEST.read, lambda found: found.queries, 240),
}
REFUSED: dict[str, tuple[Callable[[Path], Any], str]] = {
    "experiments.jsonl": (EXPERIMENTS.read, "of another format"),
    "clusters.json": (CLUSTER_FILE.read, "harness stage prepare"),
    "decision.json": (lambda p: from_json(json.loads(p.read_text("utf-8")), p), "gate stage"),
    "policy.toml": (load_policy, "policy.attempts"),
}


@pytest.mark.parametrize("name", READ)
def test_it_is_still_read(name: str, tmp_path: Path) -> None:
    read, seen, expected = READ[name]
    shutil.copytree(EARLIER, tmp_path / "earlier")
    assert seen(read(tmp_path / "earlier" / name)) == expected


@pytest.mark.parametrize("name", REFUSED)
def test_it_is_refused_by_name(name: str) -> None:
    read, said = REFUSED[name]
    with pytest.raises(HarnessError, match=said) as refused:
        read(EARLIER / name)
    assert name in str(refused.value)


def test_each_has_a_row_on_the_page() -> None:
    lines = page("docs/limits.md").text.splitlines()
    assert {f"`{name}`" for name in (*READ, *REFUSED)} <= {
        one.split("|")[1].strip() for one in lines if "|" in one
    }
