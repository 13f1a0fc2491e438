"""Where the numbers come from."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest

import harness
import harness_engines
from harness.core import batches
from harness.corpus.prepared import Prepared
from harness.pipeline.evidence import sides
from harness.pipeline.provenance import provenance
from tests.make.toy import ARMS, CONTROL, Toy

DECIDED = datetime(2026, 1, 31, 12, tzinfo=UTC)


@pytest.mark.parametrize(("days", "expires"), [(None, None), (3, "2026-02-03T12:00:00+00:00")])
def test_a_decision_expires_where_a_policy_says_so(
    measured: Toy, days: int | None, expires: str | None
) -> None:
    arms = sides(measured.layout, ARMS)
    found = provenance(
        Prepared.open(measured.layout.data),
        arms,
        licence="CC0-1.0",
        source="by hand",
        seed=5,
        commands=["harness run"],
        decided_at=DECIDED,
        evidence_days=days,
        replayed_at={CONTROL: "2026-01-30T12:00:00+00:00"},
        settings={"score": {"seed": 5}},
    )
    assert (found.decided_at, found.expires_at) == ("2026-01-31T12:00:00+00:00", expires)
    assert (found.documents, found.queries, found.judgements) == (60, 41, 2401)
    assert found.manifests == {arm: arms[arm].manifest for arm in ARMS}
    assert {"numpy", "tantivy", "ir-measures"} <= set(found.packages)
    assert found.commands == ("harness run",)
    assert found.settings == {"score": {"seed": 5}}
    assert found.replayed_at == {CONTROL: "2026-01-30T12:00:00+00:00"}


def test_the_codes_digest_is_of_every_module_and_arm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for package in (harness, harness_engines):
        folder = tmp_path / package.__name__
        shutil.copytree(package.__path__[0], folder, ignore=shutil.ignore_patterns("*.pyc"))
        monkeypatch.setattr(package.__spec__, "submodule_search_locations", [str(folder)])
    code_sha256 = batches.code_sha256.__wrapped__
    before = code_sha256()
    assert code_sha256() == before
    seen = {before}
    for name in (
        "harness_engines/arms/fts5.toml",
        "harness/report/page/view.py",
        "harness/stats/bootstrap.py",
    ):
        with (tmp_path / name).open("a") as out:
            out.write("\n# changed\n")
        seen.add(code_sha256())
    assert len(seen) == 4
