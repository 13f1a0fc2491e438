"""The form of an assessor and the shelf of pages."""

from __future__ import annotations

import json
import re
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from starlette.testclient import TestClient

from harness.core.files import write_text
from harness.corpus import judgements
from harness.corpus.judgements import Pool
from harness.judge.judge import judge
from harness.serve.pages import word_for
from harness.serve.shelf import (
    PageFolder,
    entries,
    folders,
    look,
    progress,
)
from tests.make import report_inputs
from tests.serve.conftest import SCALE, URL, make_pool

AT = "/judge/out/pool.qrels"
ORIGIN = {"origin": URL, "content-type": "application/x-www-form-urlencoded"}
LONG = "9" * (sys.int_info.default_max_str_digits + 1)
"""More digits than Python reads as a number."""
INPUT = re.compile(r'<input type="hidden" name="(\w+)" value="([^"]*)">')


class Judge:
    """Somebody at one tab, without JavaScript: presses what it shows, follows where it goes."""

    def __init__(self, client: TestClient, at: str = AT) -> None:
        self.client = client
        self.see(at)

    def see(self, at: str) -> None:
        answer = self.client.get(at)
        assert answer.status_code == 200
        self.html = answer.text

    def press(self, key: str) -> int:
        """Press the button with a key; give the status, and look at what comes then."""
        (of,) = (one for one in self.html.split("<form ")[1:] if f'name="key" value="{key}"' in one)
        assert f'action="{AT}"' in of
        fields = dict(INPUT.findall(of.partition("</form>")[0]))
        answer = self.client.post(AT, content=urlencode({**fields, "key": key}), headers=ORIGIN)
        if answer.status_code == 303:
            self.see(answer.headers["location"])
        else:
            self.html = answer.text
        return answer.status_code

    @property
    def query(self) -> str:
        match = re.search(r'class="asked"><bdi>(.*?)</bdi>', self.html)
        return match[1] if match else ""


@pytest.fixture
def path(site: Path) -> Path:
    return site / "out" / "pool.qrels"


def grades(path: Path) -> tuple[int | None, ...]:
    return judgements.read_pool(path).grades


@pytest.mark.slow
def test_a_pair_is_shown_with_a_button_for_each_grade(client: TestClient) -> None:
    seen = Judge(client)
    assert seen.query == "question 0"
    for text in ("Title 0", "words of document 0", "d0", "0 of 4 pairs judged", "Pair 1 of 4"):
        assert text in seen.html
    assert [int(one) for one in re.findall(r'name="key" value="(\d)"', seen.html)] == list(SCALE)
    assert "undo" not in seen.html


@pytest.mark.slow
def test_each_key_is_in_the_file_before_the_next_pair_is_shown(
    client: TestClient, path: Path
) -> None:
    judge = Judge(client)
    for at, key in enumerate("3012"):
        assert judge.query == f"question {at}"
        assert judge.press(key) == 303
        assert grades(path)[: at + 1] == tuple(map(int, "3012"[: at + 1]))
        assert f"{at + 1} of 4" in judge.html
    assert judge.query == ""
    assert "Every pair is judged" in judge.html
    assert f"harness judge {path} --merge" in judge.html


@pytest.mark.slow
def test_it_goes_on_where_it_was_left_whoever_left_it(client: TestClient, path: Path) -> None:
    judge(path, "1s2q", lambda *_: None)
    mine = Judge(client)
    assert mine.query == "question 1"
    mine.press("3")
    assert mine.query == "question 3"
    assert grades(path) == (1, 3, 2, None)


@pytest.mark.slow
def test_a_pair_is_left_open_and_the_last_ones_are_taken_back(
    client: TestClient, path: Path
) -> None:
    judge = Judge(client)
    for key in "1s2":
        judge.press(key)
    assert grades(path) == (1, None, 2, None)
    judge.press("u")
    assert judge.query == "question 2"
    assert grades(path) == (1, None, None, None)
    judge.press("u")
    assert judge.query == "question 1"
    judge.press("u")
    assert judge.query == "question 0"
    assert grades(path) == (None,) * 4
    assert "undo" not in judge.html


@pytest.mark.slow
def test_two_tabs_do_not_lose_a_grade_of_each_other(client: TestClient, path: Path) -> None:
    one, two = Judge(client), Judge(client)
    assert one.press("2") == 303
    assert two.press("0") == 409
    assert grades(path) == (2, None, None, None)
    assert "somebody else judged it 2 meanwhile; nothing was changed" in two.html
    assert two.query == "question 0"
    assert "judged 2 already, a key changes it" in two.html
    assert two.press("0") == 303
    assert grades(path) == (0, None, None, None)
    assert two.query == "question 1"
    assert one.press("1") == 303
    assert grades(path) == (0, 1, None, None)


@pytest.mark.slow
def test_hostile_words_stay_words(client: TestClient, path: Path) -> None:
    made = make_pool(path, 1)
    evil = (
        "</script><script>window.executed = true</script><img src=x onerror=alert(1)>\"'\u202e\x00"
    )
    pair = made.pairs[0].model_copy(update={"query": evil, "title": evil, "snippet": evil})
    write_text(judgements.texts_path(path), judgements.texts_of(Pool((pair,), (None,))))
    html = Judge(client).html
    assert "<script>window" not in html
    assert "<img" not in html
    assert "\u202e" not in html
    assert html.count("&lt;script&gt;window.executed = true&lt;/script&gt;") == 3


def body(path: Path, **changed: str) -> bytes:
    word = word_for(judgements.read_pool(path).pairs[0])
    fields = {"pair": word, "was": "", "done": "", "key": "1", **changed}
    return urlencode({name: value for name, value in fields.items() if value != "-"}).encode()


WRONG: tuple[dict[str, str], ...] = (
    {"key": "4"}, {"key": "-1"}, {"key": "x"}, {"key": ""}, {"key": "²"}, {"pair": "0" * 64},
    {"was": "x"}, {"was": "-"}, {"pair": "-"}, {"more": "1"}, {"key": LONG}, {"was": LONG},
)  # fmt: skip


@pytest.mark.slow
def test_what_the_form_does_not_send_is_refused(client: TestClient, path: Path) -> None:
    for changed in WRONG:
        answer = client.post(AT, content=body(path, **changed), headers=ORIGIN)
        assert answer.status_code == 400, changed
        assert "This is not what the form sends" in answer.text
        assert grades(path) == (None,) * 4
    assert client.post(AT, content=body(path), headers=ORIGIN).status_code == 303


ASKED = (  # dots are written as %2e: the client would go up itself where they stand plainly
    "/files/reports/%2e%2e/secret.html", "/files/reports/%2e%2e%2fsecret.html", "/files/reports/",
    "/files/%2e%2e/reports/index.html", "/files/reports/mine/%2e%2e/index.html", "/files/reports",
    "/files//reports/index.html", "/files/", "/files/reports/index.html/", "/files//etc/passwd",
    "/files/reports/%2e/index.html", "/files/reports/index.html%00", "/files/reports/INDEX.HTML",
    "/files/reports\\index.html", "/files/etc/passwd", "/files/reports/page.html",
    "/files/reports/.index.html", "/files/out/pool.qrels", "/files/out/pool.qrels.jsonl",
    "/files/out/mine/work/index.html", "/files/out/mine/work/perf/index.html",
    "/files/out/mine/work/perf/decision.json", "/files/out/mine/work/perf/junit.xml",
    "/judge/out/mine/work/perf/p.qrels", "/files/out/work/perf/load.html",
    "/files/out/.hidden/index.html", "/judge/out/mine",
    "/files/elsewhere/index.html", "/judge/reports/index.html", "/judge/out/pool.qrels.jsonl",
    "/judge/%2e%2e/out/pool.qrels",
)  # fmt: skip


def keys(*paths: Path) -> set[str]:
    return set(look(folders(paths)).sheets)


@pytest.fixture
def spoiled(site: Path) -> Path:
    """Put beside the pages what must not be served."""
    (site / "secret.html").write_text("secret")
    for name in ("page.html", ".index.html", "notes.txt"):
        (site / "reports" / name).write_text("secret")
    for name in (".hidden", "mine/work", "mine/runs"):
        (site / "out" / name).mkdir(exist_ok=True)
        (site / "out" / name / "index.html").write_text("secret")
    kept = site / "out" / "mine" / "work" / "perf"
    for name in ("index.html", "decision.json", "junit.xml", "p.qrels", "p.qrels.jsonl"):
        (kept / name).write_text("secret")
    return site


@pytest.mark.slow
def test_what_is_not_listed_does_not_exist(spoiled: Path, client: TestClient) -> None:
    assert (spoiled / "secret.html").exists()
    for path in ASKED:
        answer = client.get(path)
        assert (answer.status_code, "secret" in answer.text) == (404, False), path


def test_links_lead_nowhere(spoiled: Path, client: TestClient) -> None:
    reports = spoiled / "reports"
    (reports / "load.html").symlink_to(spoiled / "secret.html")
    (reports / "trends.html").symlink_to(reports / "index.html")
    (spoiled / "out" / "linked").symlink_to(spoiled, target_is_directory=True)
    (spoiled / "out" / "p.qrels").symlink_to(spoiled / "out" / "pool.qrels")
    (spoiled / "out" / "p.qrels.jsonl").symlink_to(spoiled / "out" / "pool.qrels.jsonl")
    for path in (
        "/files/reports/load.html", "/files/reports/trends.html",
        "/files/out/linked/reports/index.html", "/judge/out/p.qrels",
    ):  # fmt: skip
        assert client.get(path).status_code == 404
    found = keys(reports, spoiled / "out")
    assert {"out/mine/index.html", "reports/index.html"} <= found
    assert not {"reports/load.html", "reports/trends.html", "out/linked/reports/index.html"} & found


BEFORE = datetime(2026, 12, 1, tzinfo=UTC)
AFTER = datetime(2026, 12, 22, tzinfo=UTC)


def listed(site: Path, now: datetime = BEFORE) -> dict[str, PageFolder]:
    shelf = look(folders([site / "reports", site / "out"]))
    return {one.key: one for one in entries(shelf, now)}


def changed(site: Path, change: dict[str, Any]) -> PageFolder:
    """Write over what the decision says, and list it."""
    file = site / "reports" / "decision.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **change}))
    return listed(site)["reports"]


def test_a_report_is_listed_with_the_verdict_of_every_step(site: Path) -> None:
    (decided,) = listed(site)["reports"].decided
    decisions = report_inputs.report().decisions
    assert decided.dataset == "mail"
    assert decided.decided_at == "2026-11-21T21:00:00Z"
    assert decided.steps == decisions


def test_evidence_that_expired_is_told(site: Path) -> None:
    (before,) = listed(site)["reports"].decided
    (after,) = listed(site, AFTER)["reports"].decided
    assert (before.expired, after.expired) == (False, True)
    assert after._replace(expired=False) == before


def test_a_verdict_that_its_own_findings_do_not_give_is_not_shown(site: Path) -> None:
    file = site / "reports" / "decision.json"
    value = json.loads(file.read_text())
    value["datasets"][0]["steps"][0]["outcome"] = "rollback"
    entry = changed(site, value)
    assert entry.decided == ()
    assert entry.said.startswith("No verdict can be shown. reports/decision.json: step ")


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
