"""The judging form, and what follows it."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
from starlette.testclient import TestClient

from harness.core.files import write_text
from harness.corpus import judgements
from harness.corpus.judgements import Pool
from harness.judge.judge import judge
from harness.serve import pages
from harness.serve.pages import FORM_BYTES, REMEMBERED, afterwards, word_for
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
