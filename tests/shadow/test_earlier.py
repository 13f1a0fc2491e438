"""Logs and settings of version 0.1: reported with the figures of then, or refused by name.

``earlier/log`` and ``shadow.json``, the report of it, were written by commit b658642e.
"""

from __future__ import annotations

import json
import shutil
from datetime import date
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.agreement import Class
from harness.clicks.api import load_clicks
from harness.clicks.credit import read
from harness.core.errors import BadFile, BadPolicy, EvidenceError
from harness.pipeline.layout import Layout
from harness.shadow.divergences import questions
from harness.shadow.evidence import path_of, read_traffic
from harness.shadow.log import LogWriter, read_logs
from harness.shadow.record import DIVERGING
from harness.shadow.settings import read_settings
from harness.shadow.stage import shadow_report
from tests.docs.pages import page
from tests.make.shadow_records import WATCH, observation
from tests.shadow.arms import MANIFEST

EARLIER = Path(__file__).parent / "earlier"
LOG, TODAY = EARLIER / "log", date(2026, 11, 27)
SAYS_OTHERWISE = {"headline", "alarms"}
"""The first begins with failures now; the second say what each is about."""


def reported(folder: Path) -> dict[str, Any]:
    written = shadow_report(
        [LOG], folder, bounds=WATCH, suppressions=EARLIER / "accepted.toml", today=TODAY, top=3,
        commands=(),
    )  # fmt: skip
    found: dict[str, Any] = json.loads(written.json.read_text("utf-8"))
    return found


def test_a_log_is_reported_with_the_figures_of_then(tmp_path: Path) -> None:
    then, now = json.loads((EARLIER / "shadow.json").read_text("utf-8")), reported(tmp_path)
    assert set(then) == set(now)
    for key in set(then) - SAYS_OTHERWISE:
        assert now[key] == then[key], key
    for old, new in zip(then["alarms"], now["alarms"], strict=True):
        assert {key: new[key] for key in old} == old
    assert then["untimed"] == 1, "the proxy did not know all times"
    known = {Class.TIE_ORDER, Class.ERROR, Class.TIMEOUT, Class.STALE, Class.SKIPPED, Class.SHED}
    assert known < set(map(Class, now["classes"]))


def test_a_log_is_asked_again_and_goes_on(tmp_path: Path) -> None:
    found = read_logs(LOG)
    diverged = [one for one in found.observations if one.outcome in DIVERGING]
    assert sum(one.times for one in questions(found.divergences)) == len(diverged) > 9
    shutil.copytree(LOG, tmp_path / "log")
    with LogWriter(tmp_path / "log", rotate_bytes=10**6, sync_ns=0) as log:
        assert log.number == max(one.number for one in found.observations)
        log.append([observation(log.number + 1, writer=log.writer)], [], [])
    assert len(read_logs(tmp_path / "log").observations) == len(found.observations) + 1


def test_clicks_of_sessions_are_read_and_say_nothing_of_users() -> None:
    assert len(read(EARLIER).shown) == 2
    with pytest.raises(EvidenceError, match="0 users are known"):
        load_clicks(EARLIER, confidence=0.95)


def test_settings_of_candidates_on_threads_are_refused_by_name() -> None:
    with pytest.raises(BadPolicy, match=r"limits\.abandoned: unknown key\. Remove it") as refused:
        read_settings(EARLIER / "shadow.toml")
    assert (refused.value.path.name, refused.value.line) == ("shadow.toml", 18)


def test_traffic_that_was_taken_in_is_refused_by_name(tmp_path: Path) -> None:
    layout = Layout(tmp_path, tmp_path, tmp_path)
    arms: list[Any] = [SimpleNamespace(arm=arm, manifest=MANIFEST) for arm in ("fts5", "tantivy")]
    path = path_of(layout, "fts5", "tantivy")
    path.parent.mkdir(parents=True)
    shutil.copy(EARLIER / path.name, path)
    with pytest.raises(BadFile, match="Take the log in again: harness shadow traffic") as refused:
        read_traffic(layout, *arms)
    assert refused.value.path == path


def test_each_has_a_row_on_the_page() -> None:
    rows = [one.split("|")[1] for one in page("docs/limits.md").text.splitlines() if "|" in one]
    for name in ("clicks.jsonl", "observations.000001.jsonl", "shadow.toml", "traffic/*.json"):
        assert any(name in one for one in rows), name
