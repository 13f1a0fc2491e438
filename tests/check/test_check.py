"""The contract check of an arm, of a process and of a mapping."""

import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path
from threading import current_thread, main_thread
from typing import Any

import pytest

from harness.check import checks, subject
from harness.check.checks import CONTRACT_CHECKS, check
from harness.core.engine import Answer, Engine, Hit
from harness.core.errors import RunError
from harness_engines import registry
from tests.docs.pages import page
from tests.make.arms import FILE, Answers, Toy, ToySearcher, keeps
from tests.make.search_server import DOCUMENTS, Served, serving
from tests.source import ROOT

BY_NAME = {check.name: check for check in CONTRACT_CHECKS}


def changed(change: object) -> Answers:
    """Make a toy answer what ``change`` makes of the hits of a query that finds something."""

    def answer(searcher: ToySearcher, text: str, k: int) -> Answer:
        right = keeps(searcher, text, k)
        return replace(right, hits=change(right.hits, k)) if right.hits else right  # type: ignore[operator]

    return answer


def raises(when: object) -> Answers:
    def answer(searcher: ToySearcher, text: str, k: int) -> Answer:
        if when(text):  # type: ignore[operator]
            raise ValueError("fts5: syntax error")
        return keeps(searcher, text, k)

    return answer


def random(searcher: ToySearcher, text: str, k: int) -> Answer:
    """Answer every second time with other scores, in the same order."""
    right = keeps(searcher, text, k)
    if searcher.asked % 2:
        return right
    return replace(right, hits=tuple(hit._replace(score=hit.score / 2) for hit in right.hits))


def off_the_main_thread(searcher: ToySearcher, text: str, k: int) -> Answer:
    if current_thread() is not main_thread():
        raise RunError("SQLite objects created in a thread can only be used in that same thread")
    return keeps(searcher, text, k)


def by_place(searcher: ToySearcher, text: str, k: int) -> Answer:
    """Break ties by the place of a document in the index."""
    right = keeps(searcher, text, len(searcher.known))
    place = {doc_id: at for at, doc_id in enumerate(searcher.known)}
    ordered = sorted(right.hits, key=lambda hit: (-hit.score, place[hit.doc_id]))
    return replace(right, hits=tuple(ordered[:k]))


def cut_before_order(searcher: ToySearcher, text: str, k: int) -> Answer:
    """Cut the list while ties stand the other way around, and order them after that."""
    right = keeps(searcher, text, len(searcher.known))
    cut = sorted(right.hits, key=lambda hit: (-hit.score, [-ord(c) for c in hit.doc_id]))[:k]
    return replace(right, hits=tuple(sorted(cut, key=lambda hit: (-hit.score, hit.doc_id))))


def served_by_another(searcher: ToySearcher, text: str, k: int) -> Answer:
    return replace(keeps(searcher, text, k), served_by="f" * 64)


def always_something(searcher: ToySearcher, text: str, k: int) -> Answer:
    right = keeps(searcher, text, k)
    return right if right.hits else replace(right, hits=(Hit(min(searcher.known), 1.0, 1.0),))


def logs(index: Path) -> None:
    (index / f"log-{len(list(index.glob('log-*'))) + 1}").touch()


def forgets() -> Callable[[Path], None]:
    """Change the index when it is opened a second time."""
    turn = count()

    def opened(index: Path) -> None:
        if next(turn) == 1:
            path = index / FILE
            path.write_text(path.read_text("utf-8").replace("honey", "sugar"), "utf-8")

    return opened


BROKEN: tuple[tuple[str, str, Engine], ...] = (
    ("answers", "answered list instead", Toy(lambda *_: [])),  # type: ignore[arg-type]
    ("answers", "raised ValueError: fts5", Toy(raises(lambda text: "bees" in text))),
    ("answers", "21 hits were shown, 20 were", Toy(changed(lambda hits, k: hits[:1] * (k + 1)))),
    ("finds", "none of", Toy(lambda it, *_: Answer((), it.manifest.fingerprint))),
    ("identity", "served by 'ffffffffffff'", Toy(served_by_another)),
    ("ids", "'x' is the id of no document", Toy(changed(lambda *_: (Hit("x", 1, 1),)))),
    ("ids", "shown 2 times", Toy(changed(lambda hits, _: (hits[0], hits[0])))),
    ("scores", "score 7.0", Toy(changed(lambda hits, _: (hits[0]._replace(score=7.0),)))),
    ("order", "stands below", Toy(changed(lambda hits, _: hits[::-1]))),
    ("ties", "with equal scores", Toy(by_place)),
    ("equal documents", "instead of ['twin-a']", Toy(cut_before_order)),
    ("k", "the first of k = 20 are", Toy(cut_before_order)),
    ("more than all", "raised ValueError", Toy(
        lambda it, text, k: keeps(it, text, k) if k < 10**9 else raises(bool)(it, text, k))),
    ("empty text", "shows 1 document", Toy(always_something)),
    ("hostile text", "one quote: '\"' (k = 5): raised ValueError: fts5: syntax error",
     Toy(raises(lambda text: text == '"'))),
    ("long text", "one word, 100,000 characters", Toy(raises(lambda text: len(text) > 10**4))),
    ("repetitions", "at repetition 2", Toy(random)),
    ("threads", "on thread 1 of 3", Toy(off_the_main_thread)),
    ("threads", "on thread", Toy(opened=forgets())),
    ("manifest", "99 documents, 15 were given", Toy(
        built=lambda made: replace(made, documents=99))),
    ("no index", "an empty folder: opens", Toy(checks=False)),
    ("damaged index", "other settings: opens", Toy(checks=False)),
    ("read only", "log-2 was added", Toy(opened=logs)),
    ("fingerprint", "the one fingerprint", Toy(
        built=lambda made: replace(made, corpus_sha256=""))),
    ("document order", "in reverse order", Toy(by_place)),
    ("empty corpus", "raised ZeroDivisionError: integer division or modulo by zero", Toy(
        takes=lambda given: given[: len(given) + (1 // len(given))])),
)  # fmt: skip


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Iterator[subject.CheckSubject]:
    with subject.standing(Toy(), tmp_path_factory.mktemp("sound")) as opened:
        yield opened


@pytest.mark.parametrize("check", [one for one in CONTRACT_CHECKS if not one.by_name], ids=str)
def test_an_engine_that_keeps_a_promise_passes(
    sound: subject.CheckSubject, check: subject.Check
) -> None:
    finding = subject.examine(check, sound)
    assert finding.outcome is subject.CheckOutcome.HOLDS, str(finding)
    assert str(finding) == f"{check.name}: holds. {check.promise}"


@pytest.mark.parametrize(("name", "said", "engine"), BROKEN, ids=[name for name, *_ in BROKEN])
def test_an_engine_that_breaks_a_promise_is_named(
    tmp_path: Path, name: str, said: str, engine: Engine
) -> None:
    with subject.standing(engine, tmp_path) as opened:
        finding = subject.examine(BY_NAME[name], opened)
    assert finding.broken
    assert said in str(finding)
    assert f"To fix: {finding.check.hint}" in str(finding)
    assert len(finding.violations) <= subject.LISTED


def test_the_page_lists_every_check_with_its_promise() -> None:
    text = page("docs/how-to/check-engine.md").section("What is checked")
    for known in CONTRACT_CHECKS:
        assert f"| `{known.name}` | {known.promise} |\n" in text
    assert text.count("\n| `") == len(CONTRACT_CHECKS)


SAMPLE = subject.CheckSample(DOCUMENTS, ("red cone", "blue cone", "green ball"), own=False)


@pytest.fixture
def served() -> Iterator[Served]:
    with serving() as running:
        yield running


def test_a_file_that_fits_keeps_all_promises(served: Served, tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(served.toml(), encoding="utf-8")
    found = check(str(path), tmp_path / "cache", SAMPLE).findings
    assert [one.check for one in found] == list(checks.MAPPING_CHECKS)
    assert {one.outcome for one in found} == {subject.CheckOutcome.HOLDS}, found


def ascending(answer: dict[str, Any]) -> None:
    for at, hit in enumerate(answer["hits"]):
        hit["score"] = float(at)


@pytest.mark.parametrize(
    ("name", "change", "words"),
    [
        ("answers", lambda a: a.pop("hits"), "hits: 'hits' of the answer.*correct the key"),
        ("answers", lambda a: [hit.pop("id") for hit in a["hits"]], "hit 1: the id is None"),
        ("finds", lambda a: a["hits"].clear(), "none of 3 queries with words"),
        ("ids", lambda a: a.update(hits=a["hits"][:1] * 2), "is shown 2 times.*collapse"),
        ("descending scores", ascending, "hit 2 scores 1, the one above 0.*no distance"),
        ("documents", lambda a: [hit.update(id=f"x{hit['id']}") for hit in a["hits"]],
         "no hit is a document of the data set"),
    ],
)  # fmt: skip
def test_a_test_suite_gets_the_checks_of_a_mapping_and_is_told_in_words(
    served: Served, tmp_path: Path, name: str, change: Callable[..., object], words: str
) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(served.toml(unknown_ids='"keep"'), encoding="utf-8")
    found = checks.engine_contract(path, documents=DOCUMENTS, queries=SAMPLE.texts)
    assert [one.check for one in found] == list(checks.MAPPING_CHECKS)
    served.change = change
    with pytest.raises(AssertionError, match=f"(?s){words}"):
        next(one for one in found if str(one) == name)()


RETURN = "return Answer(by_best(named, k), self.manifest.fingerprint)"
HASHED = (
    "return Answer(tuple(hit._replace(score=1 / (1 + hash(hit.doc_id) % 10**6))"
    " for hit in by_best(named, k)), self.manifest.fingerprint)"
)


def examined(folder: Path, after: str) -> subject.CheckFinding:
    """Check the example with another last line."""
    for file in (ROOT / "examples" / "own_engine").glob("own.*"):
        shutil.copy(file, folder)
    own = folder / "own.py"
    text = own.read_text("utf-8")
    assert RETURN in text
    own.write_text(text.replace(RETURN, after), "utf-8")
    arm = subject.Named(str(folder / "own.toml"), folder / "cache")
    with subject.standing(registry.load(*arm), folder, arm=arm) as opened:
        return subject.examine(BY_NAME["processes"], opened)


def test_an_engine_whose_answers_rest_on_its_documents_passes(tmp_path: Path) -> None:
    printing = f"print('searching', end='')\n        {RETURN}"
    assert examined(tmp_path, printing).outcome is subject.CheckOutcome.HOLDS


def test_an_engine_whose_answers_rest_on_hashes_is_named(tmp_path: Path) -> None:
    finding = examined(tmp_path, HASHED)
    assert finding.broken
    assert finding.violations[0].endswith(", in another process")
    assert "To fix: Sort what comes out of a set" in str(finding)
