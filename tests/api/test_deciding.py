"""A policy judges what a run left, from Python as on the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.api.decision import decide
from harness.core.errors import BadFile
from harness.pipeline.layout import left_by_run
from tests.make.toy import GATES, HEAD, STEP, Toy


@pytest.fixture(scope="module")
def left(measured: Toy, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Lay the evidence of the small project out as ``harness run`` does."""
    out = tmp_path_factory.mktemp("left") / "out"
    copy = measured.copied(out / "project")
    (out / "work" / "build").mkdir(parents=True)
    copy.layout.root.rename(out / "work" / "build" / "toy")
    copy.layout.today.rename(out / "work" / "perf")
    return out


@pytest.mark.slow
def test_a_policy_is_asked_of_what_is_there(left: Path, tmp_path: Path) -> None:
    (tmp_path / "p.toml").write_text(HEAD + STEP + GATES)
    found = decide(tmp_path / "p.toml", left, control="fts5")
    assert found.policy == "toy migration"
    by_name = {step.step: step for step in found.steps}
    assert set(by_name) == {"tantivy", "hash-hybrid"}
    assert by_name["tantivy"].outcome.value == "promote"
    frame = found.frame()
    assert set(frame["gate"]) >= {"Quality", "Overlap"}
    row = frame[(frame["gate"] == "Quality") & (frame["step"] == "tantivy")].iloc[0]
    assert row["verdict"] == "pass"
    assert row["low"] > row["limit"] == -0.15
    assert "PROMOTE (fts5 → tantivy)" in found._repr_html_()
    assert "tantivy: PROMOTE (fts5 → tantivy)\n  PASS: Who answers\n" in repr(found)


@pytest.mark.slow
def test_a_stricter_bound_holds_and_says_why(left: Path, tmp_path: Path) -> None:
    (tmp_path / "p.toml").write_text(HEAD + STEP + GATES.replace("floor = 0.6", "floor = 0.999"))
    found = decide(tmp_path / "p.toml", left)
    assert found.exit_code == 1
    assert "HOLD" in found._repr_html_()
    assert "FAIL" in found._repr_html_()


def test_a_folder_without_evidence_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadFile, match="holds the evidence of none"):
        left_by_run(tmp_path)
