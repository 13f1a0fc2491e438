"""``harness.serve.shelf``: what the front page lists, and what it says of each."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from harness.corpus import judgements
from harness.report.page.cards import Tone
from harness.serve.shelf import COMPARED, Entry, entries, folders, look, progress
from tests.make import report_inputs
from tests.serve.conftest import make_pool, write_decision

BEFORE = datetime(2026, 12, 1, tzinfo=UTC)
AFTER = datetime(2026, 12, 22, tzinfo=UTC)


def listed(site: Path, now: datetime = BEFORE) -> dict[str, Entry]:
    shelf = look(folders([site / "reports", site / "out"]))
    return {one.key: one for one in entries(shelf, now)}


def changed(site: Path, change: dict[str, Any]) -> Entry:
    """Write over what the decision says, and list it."""
    file = site / "reports" / "decision.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **change}))
    return listed(site)["reports"]


def test_a_report_is_listed_with_the_verdict_of_every_step(site: Path) -> None:
    (decided,) = listed(site)["reports"].decided
    decisions = report_inputs.report().decisions
    assert decided.dataset == "mail"
    assert decided.decided_at == "2026-11-21T21:00:00Z"
    assert [(one.name, one.outcome) for one in decided.steps] == [
        (one.step, one.outcome.value) for one in decisions
    ]
    assert len({one.tone for one in decided.steps}) > 1
    for shown, decision in zip(decided.steps, decisions, strict=True):
        assert (shown.control, shown.candidate) == (decision.control, decision.candidate)
        assert shown.blocking == tuple(one.gate for one in decision.blocking)
        assert (shown.tone is Tone.PROMOTE) == (decision.outcome.value == "promote")


def test_evidence_that_expired_is_told(site: Path) -> None:
    (before,) = listed(site)["reports"].decided
    (after,) = listed(site, AFTER)["reports"].decided
    assert (before.expired, after.expired) == (False, True)
    assert after._replace(expired=False) == before


def test_evidence_without_an_end_does_not_expire(site: Path) -> None:
    value = json.loads((site / "reports" / "decision.json").read_text())
    value["datasets"][0]["provenance"]["expires_at"] = None
    changed(site, value)
    (decided,) = listed(site, AFTER)["reports"].decided
    assert (decided.expires_at, decided.expired) == ("", False)


def test_all_data_sets_of_a_report_are_listed(site: Path) -> None:
    write_decision(site / "reports", "one", "two")
    assert [one.dataset for one in listed(site)["reports"].decided] == ["one", "two"]


def test_a_verdict_that_its_own_findings_do_not_give_is_not_shown(site: Path) -> None:
    file = site / "reports" / "decision.json"
    value = json.loads(file.read_text())
    value["datasets"][0]["steps"][0]["outcome"] = "rollback"
    entry = changed(site, value)
    assert entry.decided == ()
    assert entry.said.startswith("No verdict can be shown. reports/decision.json: step ")


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", "[" * 100_000, '{"schema_version": "0.9"}', "\ud800"]
)
def test_what_is_no_decision_is_told_and_the_page_still_listed(site: Path, text: str) -> None:
    (site / "reports" / "decision.json").write_bytes(text.encode("utf-8", "surrogatepass"))
    entry = listed(site)["reports"]
    assert entry.decided == ()
    assert "No verdict can be shown. reports/decision.json: " in entry.said
    assert entry.sheets[0].name == "index.html"


@pytest.mark.parametrize("expires", ["soon", "2026-12-21T21:00:00"])
def test_an_end_that_is_no_time_is_told(site: Path, expires: str) -> None:
    value = json.loads((site / "reports" / "decision.json").read_text())
    value["datasets"][0]["provenance"]["expires_at"] = expires
    assert "is not a time with its zone" in changed(site, value).said


def test_a_decision_that_is_written_anew_is_read_anew(site: Path) -> None:
    before = listed(site)["reports"]
    write_decision(site / "reports", "other")
    after = listed(site)["reports"]
    assert [one.dataset for one in after.decided] == ["other"]
    assert after.signature != before.signature


def test_arms_that_are_only_compared_have_no_verdict(site: Path) -> None:
    (site / "reports" / "decision.json").unlink()
    assert listed(site)["reports"].said == COMPARED
    assert listed(site)["reports"].decided == ()


@pytest.mark.parametrize(
    ("text", "said"),
    [('{"headline": "Nothing diverges."}', "Nothing diverges."), ('{"headline": 3}', ""),
     ("[]", ""), ("{", "No verdict can be shown. out/live/shadow.json: cannot be read as JSON.")],
)  # fmt: skip
def test_a_live_comparison_says_its_headline(site: Path, text: str, said: str) -> None:
    live = site / "out" / "live"
    live.mkdir()
    (live / "index.html").write_text("page")
    (live / "shadow.json").write_text(text)
    assert listed(site)["out/live"].said == said


def test_the_page_of_a_load_is_listed_with_its_run(site: Path) -> None:
    found = listed(site)
    assert set(found) == {"reports", "out/mine"}
    assert [sheet.key for sheet in found["out/mine"].sheets] == [
        "out/mine/index.html", "out/mine/work/perf/load.html",
    ]  # fmt: skip


def test_a_folder_with_another_page_says_nothing_of_verdicts(site: Path) -> None:
    (site / "out" / "mine" / "index.html").unlink()
    entry = listed(site)["out/mine"]
    assert (entry.said, entry.decided) == ("", ())
    assert [sheet.key for sheet in entry.sheets] == ["out/mine/work/perf/load.html"]


def test_data_without_a_page_are_not_listed(site: Path) -> None:
    (site / "out" / "data").mkdir()
    (site / "out" / "data" / "decision.json").write_text("{}")
    assert set(listed(site)) == {"reports", "out/mine"}


def test_pages_come_before_what_lies_beside_them(site: Path) -> None:
    for name in ("trends.html", "explore.html"):
        (site / "reports" / name).write_text("page")
    assert [sheet.name for sheet in listed(site)["reports"].sheets] == [
        "index.html", "explore.html", "trends.html", "decision.json", "junit.xml", "report.md",
    ]  # fmt: skip


def test_the_newest_is_the_first(site: Path) -> None:
    old, new = site / "reports", [*(site / "out" / "mine").rglob("*.html")]
    for file in old.iterdir():
        os.utime(file, (1_000_000_000, 1_000_000_000))
    assert [*listed(site)] == ["out/mine", "reports"]
    assert listed(site)["reports"].changed_at == "2001-09-09T01:46:40+00:00"
    for file in new:
        os.utime(file, (900_000_000, 900_000_000))
    assert [*listed(site)] == ["reports", "out/mine"]


def test_pools_are_listed_with_how_far_they_are(site: Path) -> None:
    path = site / "out" / "pool.qrels"
    judgements.regrade(path, judgements.read_pool(path).pairs[2], None, 3)
    whole = site / "out" / "a-whole.qrels"
    judgements.write_grades(whole, make_pool(whole, 1).graded(0, 1))
    broken = site / "out" / "broken.qrels"
    make_pool(broken)
    broken.write_text("no pool\n")
    found = progress(look(folders([site / "out"])))
    assert [(one.key, one.judged, one.of) for one in found] == [
        ("out/broken.qrels", 0, 0), ("out/pool.qrels", 1, 4), ("out/a-whole.qrels", 1, 1),
    ]  # fmt: skip
    assert f"{broken}:1:" in found[0].problem
    assert [bool(one.problem) for one in found] == [True, False, False]
