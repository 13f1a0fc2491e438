"""The form of an assessor and the shelf of pages."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
from starlette.testclient import TestClient

from harness.core.errors import BadFile
from harness.core.files import write_text
from harness.corpus import judgements
from harness.corpus.judgements import Pool
from harness.judge.judge import judge
from harness.pipeline.layout import Layout
from harness.serve import pages
from harness.serve.pages import FORM_BYTES, REMEMBERED, afterwards, word_for
from harness.serve.shelf import (
    BESIDE,
    COMPARED,
    DEPTH,
    PAGES,
    PageFolder,
    entries,
    folders,
    look,
    progress,
)
from tests.make import report_inputs
from tests.serve.conftest import SCALE, URL, make_pool, write_compared, write_decision

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
@pytest.mark.parametrize(
    ("scale", "words"),
    [((0, 1), ("not relevant", "relevant")), (SCALE, ("not relevant", "", "", "most relevant"))],
)
def test_the_best_grade_is_called_relevant_where_there_are_two(
    client: TestClient, path: Path, scale: tuple[int, ...], words: tuple[str, ...]
) -> None:
    made = make_pool(path)
    pairs = tuple(pair.model_copy(update={"scale": scale}) for pair in made.pairs)
    write_text(judgements.texts_path(path), judgements.texts_of(Pool(pairs, made.grades)))
    judgements.write_grades(path, Pool(pairs, made.grades))
    assert tuple(re.findall(r"<kbd>\d</kbd> ?([a-z ]*)<", Judge(client).html)) == words


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
def test_what_was_left_open_can_be_begun_again(client: TestClient, path: Path) -> None:
    judge = Judge(client)
    for key in "0s11":
        judge.press(key)
    assert "1 pair is still open" in judge.html
    judge.see(AT)
    assert judge.query == "question 1"
    judge.press("1")
    assert grades(path) == (0, 1, 1, 1)


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
def test_the_same_grade_twice_is_no_conflict(client: TestClient, path: Path) -> None:
    one, two = Judge(client), Judge(client)
    assert one.press("2") == two.press("2") == 303
    assert grades(path) == (2, None, None, None)
    assert two.query == "question 1"


@pytest.mark.slow
def test_a_tab_and_a_terminal_do_not_lose_a_grade_of_each_other(
    client: TestClient, path: Path
) -> None:
    tab = Judge(client)
    told: list[str] = []

    def show(_: Pool, at: int, said: str) -> None:
        told.append(said)
        if at == 1 and len(told) == 2:
            assert tab.press("3") == 409
            tab.press("s")
            assert tab.press("3") == 303

    judge(path, "00s0q", show)
    assert grades(path) == (0, 3, 0, None)
    assert "somebody else judged it 3 meanwhile; nothing was changed" in told


@pytest.mark.slow
def test_a_grade_that_was_taken_back_elsewhere_is_told(client: TestClient, path: Path) -> None:
    one = Judge(client)
    one.press("2")
    judgements.regrade(path, judgements.read_pool(path).pairs[0], 2, 1)
    assert one.press("u") == 409
    assert one.query == "question 0"
    assert "judged it 1 meanwhile" in one.html
    assert grades(path)[0] == 1


@pytest.mark.slow
def test_a_pair_is_found_where_its_line_was_moved_to(client: TestClient, path: Path) -> None:
    judge = Judge(client)
    path.write_text("".join(reversed(path.read_text().splitlines(keepends=True))))
    assert judge.press("3") == 303
    found = judgements.read_pool(path)
    assert found.grades[found.at("q0", "d0") or 0] == 3
    assert len(found.open) == 3


@pytest.mark.slow
def test_who_showed_a_document_is_not_told(client: TestClient, path: Path) -> None:
    """The pool does not know it, and what it knows of the worth of a pair is not shown either."""
    assert "narrows" not in Judge(client).html
    assert "0.25" not in Judge(client).html
    assert not {"arm", "control", "candidate", "rank"} & set(
        judgements.read_pool(path).pairs[0].model_fields_set
    )


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


@pytest.mark.slow
def test_ids_with_odd_characters_are_judged(client: TestClient, path: Path) -> None:
    odd = Pool(
        (make_pool(path, 1).pairs[0].model_copy(update={"doc_id": 'é/"<&%\u202e\x7f'}),), (None,)
    )
    write_text(judgements.texts_path(path), judgements.texts_of(odd))
    judgements.write_grades(path, odd)
    assert Judge(client).press("1") == 303
    assert grades(path) == (1,)


def body(path: Path, **changed: str) -> bytes:
    word = word_for(judgements.read_pool(path).pairs[0])
    fields = {"pair": word, "was": "", "done": "", "key": "1", **changed}
    return urlencode({name: value for name, value in fields.items() if value != "-"}).encode()


@pytest.mark.slow
@pytest.mark.parametrize(
    "changed",
    [{"key": "4"}, {"key": "-1"}, {"key": "x"}, {"key": ""}, {"key": "²"}, {"key": "11"},
     {"pair": "0" * 64}, {"pair": ""}, {"was": "x"}, {"was": "-"}, {"pair": "-"}, {"more": "1"},
     {"key": LONG}, {"was": LONG}],
    ids=lambda changed: str(changed)[:30],
)  # fmt: skip
def test_what_the_form_does_not_send_is_refused(
    client: TestClient, path: Path, changed: dict[str, str]
) -> None:
    answer = client.post(AT, content=body(path, **changed), headers=ORIGIN)
    assert answer.status_code == 400
    assert "This is not what the form sends" in answer.text
    assert grades(path) == (None,) * 4
    assert client.post(AT, content=body(path), headers=ORIGIN).status_code == 303


@pytest.mark.slow
@pytest.mark.parametrize("sent", [b"", b"\xff\xfe", b"key", b"a=1&" * 99, b"{}"])
def test_what_is_no_form_is_refused(client: TestClient, path: Path, sent: bytes) -> None:
    assert client.post(AT, content=sent, headers=ORIGIN).status_code == 400
    assert grades(path) == (None,) * 4


@pytest.mark.slow
def test_a_form_has_an_end(client: TestClient, path: Path) -> None:
    answer = client.post(AT, content=b"x" * (FORM_BYTES + 1), headers=ORIGIN)
    assert answer.status_code == 413
    assert grades(path) == (None,) * 4


@pytest.mark.slow
@pytest.mark.parametrize(
    "query",
    ["at=x&done=y", "at=-1", "at=²", "done=99.-1.1e9.", "at=9" * 99, f"at={LONG}",
     f"done={LONG}.0"],
    ids=lambda query: query[:30],
)  # fmt: skip
def test_an_address_that_says_nonsense_begins_somewhere(client: TestClient, query: str) -> None:
    assert client.get(f"{AT}?{query}").status_code == 200


@pytest.mark.slow
def test_a_place_behind_the_last_pair_is_the_end(client: TestClient) -> None:
    assert "That was the last pair" in client.get(f"{AT}?at=99").text


@pytest.mark.slow
def test_what_can_be_taken_back_has_an_end(site: Path) -> None:
    path = site / "out" / "long.qrels"
    make_pool(path, REMEMBERED + 10)
    here = pages.sit("out/long.qrels", path, {})
    for _ in range(REMEMBERED + 5):
        here = here.after()
    assert here.at == REMEMBERED + 5
    assert here.done == tuple(range(5, REMEMBERED + 5))
    asked = {name: value[0] for name, value in parse_qs(urlsplit(here.url).query).items()}
    assert pages.sit("out/long.qrels", path, asked) == here


@pytest.mark.slow
def test_a_pool_that_breaks_while_it_is_judged_is_told(client: TestClient, path: Path) -> None:
    judge = Judge(client)
    path.write_text("no pool\n")
    assert judge.press("1") == 500
    assert f"{path}:1:" in judge.html
    assert client.get(AT).status_code == 500
    path.unlink()
    assert judge.client.get(AT).status_code == 404


@pytest.mark.slow
def test_guidelines_are_shown_as_text_and_not_through_a_link(
    client: TestClient, path: Path
) -> None:
    assert "What a grade means" not in Judge(client).html
    guidelines = path.with_name("guidelines.md")
    guidelines.write_text("1 is: <b>it helps</b>\n\u202e")
    judge = Judge(client)
    assert '<details class="guidelines" open>' in judge.html
    assert "1 is: &lt;b&gt;it helps&lt;/b&gt;" in judge.html
    assert "\u202e" not in judge.html
    judge.press("1")
    assert '<details class="guidelines">' in judge.html
    guidelines.unlink()
    guidelines.symlink_to(path.with_name("secret.txt"))
    path.with_name("secret.txt").write_text("not to be shown")
    assert "not to be shown" not in Judge(client).html


def commands(pool: Path, harness: str = "harness") -> list[list[str]]:
    return [shlex.split(one) for one in afterwards(pool, harness).values()]


def test_a_pool_goes_into_a_data_set_that_is_there_or_becomes_one(tmp_path: Path) -> None:
    pool = tmp_path / "pool.qrels"
    make_pool(pool)
    assert commands(pool) == [
        ["harness", "judge", str(pool), "--merge", "NAME", "--by", "WHO"],
        shlex.split(f"harness import jsonl corpus.jsonl queries.jsonl {pool} --name NAME"),
    ]


@pytest.mark.parametrize("name", ["two words", "it's", "$HOME;x"])
def test_a_path_of_any_name_is_one_word(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    pool = tmp_path / name / "pool.qrels"
    make_pool(pool)
    for command in commands(pool):
        assert str(pool) in command


def test_the_program_is_named_as_the_reader_calls_it(tmp_path: Path) -> None:
    pool = tmp_path / "pool.qrels"
    make_pool(pool)
    for command in commands(pool, "python3 run.py harness"):
        assert command[:3] == ["python3", "run.py", "harness"]


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
@pytest.mark.parametrize("path", ASKED)
def test_what_is_not_listed_does_not_exist(spoiled: Path, client: TestClient, path: str) -> None:
    assert (spoiled / "secret.html").exists()
    answer = client.get(path)
    assert answer.status_code == 404
    assert "secret" not in answer.text
    assert "Page not found" in answer.text


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


def test_what_becomes_a_link_after_it_was_listed_is_not_followed(spoiled: Path) -> None:
    sheets = look(folders([spoiled / "out", spoiled / "reports"])).sheets
    page, below = sheets["reports/index.html"], sheets["out/mine/index.html"]
    assert (page.content() or b"").startswith(b"<!doctype html>")
    page.path.unlink()
    page.path.symlink_to(spoiled / "secret.html")
    (spoiled / "out" / "mine").rename(spoiled / "moved")
    (spoiled / "moved" / "index.html").write_text("secret")
    (spoiled / "out" / "mine").symlink_to(spoiled / "moved", target_is_directory=True)
    assert page.content() is below.content() is None
    (spoiled / "out" / "mine").unlink()
    assert below.content() is None


@pytest.mark.parametrize("linked", ["work", "work/perf", "work/perf/load.html"])
def test_the_page_of_a_load_is_not_followed_out_of_its_run(site: Path, linked: str) -> None:
    mine = site / "out" / "mine"
    assert "out/mine/work/perf/load.html" in keys(site / "out")
    (mine / linked).rename(site / "moved")
    (mine / linked).symlink_to(site / "moved")
    assert (mine / "work/perf/load.html").is_file()
    assert keys(site / "out") == {"out/mine/index.html"}


def test_a_run_is_found_as_deep_as_its_load(tmp_path: Path) -> None:
    deepest = tmp_path.joinpath("top", *"abcdefgh"[:DEPTH])
    write_compared(deepest, Layout(deepest, deepest / "work" / "perf", deepest))
    assert len(keys(tmp_path / "top")) == 2


def test_what_is_no_file_is_not_opened(site: Path) -> None:
    """A pipe would be waited at for ever."""
    os.mkfifo(site / "reports" / "load.html")
    (site / "reports" / "trends.html").mkdir()
    assert not {"reports/load.html", "reports/trends.html"} & keys(site / "reports")


def test_a_name_that_is_no_text_hides_itself_and_nothing_else(site: Path) -> None:
    shutil.copytree(site / "reports", site / "all" / os.fsdecode(b"bad\xff"))
    shutil.copytree(site / "reports", site / "all" / "good")
    assert "all/good/index.html" in keys(site / "all")
    assert all(key.isascii() for key in keys(site / "all"))


def test_a_folder_that_is_named_by_a_link_is_served(site: Path) -> None:
    (site / "latest").symlink_to(site / "reports", target_is_directory=True)
    assert "reports/index.html" in keys(site / "latest")


def test_it_is_looked_some_folders_deep(tmp_path: Path) -> None:
    for depth in range(DEPTH + 2):
        folder = tmp_path.joinpath("top", *"abcdefgh"[:depth])
        folder.mkdir(parents=True)
        (folder / "index.html").write_text("page")
    assert len(keys(tmp_path / "top")) == DEPTH + 1


def test_folders_of_one_name_are_told_apart(site: Path) -> None:
    other = site / "other" / "reports"
    other.mkdir(parents=True)
    (other / "load.html").write_text("page")
    assert {"reports/index.html", "reports-2/load.html"} <= keys(site / "reports", other)


def test_a_signature_is_another_one_after_every_change(site: Path) -> None:
    def signature() -> str:
        return look(folders([site / "reports"])).sheets["reports/index.html"].signature

    page = site / "reports" / "index.html"
    seen = [signature()]
    page.write_text("changed")
    seen.append(signature())
    about = page.stat()
    beside = site / "beside"
    beside.write_text("CHANGED")
    os.utime(beside, ns=(about.st_atime_ns, about.st_mtime_ns))
    beside.replace(page)
    seen.append(signature())
    assert len(set(seen)) == 3
    assert signature() == seen[-1]


def test_a_pool_is_a_file_with_its_texts_beside_it(site: Path) -> None:
    make_pool(site / "out" / "deep" / "p2")
    (site / "out" / "lonely.qrels").write_text("q 0 d ?\n")
    (site / "out" / "corpus.jsonl").write_text("{}\n")
    found = look(folders([site / "out"]))
    assert set(found.pools) == {"out/pool.qrels", "out/deep/p2"}


def test_names_of_pages_and_of_what_lies_beside_them_differ() -> None:
    assert not set(PAGES) & set(BESIDE)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "problem"),
    [("absent", "is not a folder"), ("empty", "holds no page and no pool"),
     ("file", "is not a folder"), ("data", "holds no page and no pool")],
)  # fmt: skip
def test_a_folder_with_nothing_to_show_is_an_error_that_names_the_hint(
    site: Path, name: str, problem: str
) -> None:
    (site / "empty").mkdir()
    (site / "file").write_text("")
    (site / "data").mkdir()
    (site / "data" / "decision.json").write_text("{}")
    with pytest.raises(BadFile, match=rf"{name}: {problem}\. .*harness run --out"):
        folders([site / "reports", site / name])


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


@pytest.mark.slow
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


@pytest.mark.slow
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
