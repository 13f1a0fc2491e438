"""The contract check of an arm, of a process and of a mapping."""

from __future__ import annotations

import errno
import io
import json
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path
from threading import current_thread, main_thread
from typing import Any

import pytest

from harness.check import answers, checks
from harness.check.checks import CONTRACT_CHECKS, CheckSample, check
from harness.check.subject import (
    LISTED,
    LONGEST,
    Check,
    CheckFinding,
    CheckOutcome,
    CheckSubject,
    Named,
    NotChecked,
    examine,
    examine_all,
    quoted,
    standing,
)
from harness.core.engine import Answer, Engine, Hit
from harness.core.errors import RunError
from harness_engines import registry
from tests.docs.pages import page
from tests.make.arms import FILE, Answers, Toy, ToySearcher, keeps
from tests.make.search_server import DOCUMENTS, Served, serving
from tests.source import ROOT

BY_NAME = {check.name: check for check in CONTRACT_CHECKS}


def changed(change: object) -> Answers:
    """Let a toy answer what ``change`` makes of the hits of a query that finds something."""

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
    ("manifest", "99 documents, 15 were given", Toy(
        built=lambda made: replace(made, documents=99))),
    ("no index", "an empty folder: opens", Toy(checks=False)),
    ("damaged index", "other settings: opens", Toy(checks=False)),
    ("read only", "log-2 was added", Toy(opened=logs)),
    ("fingerprint", "the one fingerprint", Toy(
        built=lambda made: replace(made, corpus_sha256=""))),
    ("document order", "in reverse order", Toy(by_place)),
)  # fmt: skip


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CheckSubject]:
    with standing(Toy(), tmp_path_factory.mktemp("sound")) as subject:
        yield subject


@pytest.mark.parametrize("check", [one for one in CONTRACT_CHECKS if not one.by_name], ids=str)
def test_an_engine_that_keeps_a_promise_passes(sound: CheckSubject, check: Check) -> None:
    finding = examine(check, sound)
    assert finding.outcome is CheckOutcome.HOLDS, str(finding)
    assert str(finding) == f"{check.name}: holds. {check.promise}"


@pytest.mark.parametrize(("name", "said", "engine"), BROKEN, ids=[name for name, *_ in BROKEN])
def test_an_engine_that_breaks_a_promise_is_named(
    tmp_path: Path, name: str, said: str, engine: Engine
) -> None:
    with standing(engine, tmp_path) as subject:
        finding = examine(BY_NAME[name], subject)
    assert finding.broken
    assert said in str(finding)
    assert f"To fix: {finding.check.hint}" in str(finding)
    assert len(finding.violations) <= LISTED


def test_each_check_finds_an_engine_that_breaks_it() -> None:
    elsewhere = {"opened again", "empty corpus", "processes"}
    assert {name for name, *_ in BROKEN} | elsewhere == set(BY_NAME)
    assert len(BY_NAME) == len(CONTRACT_CHECKS)
    assert (
        *answers.ANSWER_CHECKS,
        *answers.SAMENESS_CHECKS,
        *answers.PROCESS_CHECKS,
        *checks.INDEX_CHECKS,
    ) == CONTRACT_CHECKS


def test_an_index_that_answers_otherwise_when_it_is_opened_again(tmp_path: Path) -> None:
    turn = count()

    def forgets(index: Path) -> None:
        if next(turn) == 1:
            path = index / FILE
            path.write_text(path.read_text("utf-8").replace("honey", "sugar"), "utf-8")

    with standing(Toy(opened=forgets), tmp_path) as subject:
        finding = examine(BY_NAME["opened again"], subject)
    assert "opened again" in finding.violations[0]


def test_an_engine_that_cannot_index_nothing(tmp_path: Path) -> None:
    engine = Toy(takes=lambda given: given[: len(given) + (1 // len(given))])
    with standing(engine, tmp_path) as subject:
        finding = examine(BY_NAME["empty corpus"], subject)
    assert finding.violations == ("raised ZeroDivisionError: integer division or modulo by zero",)


def test_where_no_query_is_answered_the_rest_is_not_checked(tmp_path: Path) -> None:
    with standing(Toy(raises(bool)), tmp_path) as subject:
        found = {
            one.check.name: one for one in examine_all(CONTRACT_CHECKS, subject, own_documents=True)
        }
    assert found["answers"].broken
    assert found["answers"].count == len(subject.texts)
    assert "and 10 more" in str(found["answers"])
    assert found["ties"].outcome is CheckOutcome.NOT_CHECKED
    assert found["ties"].reason == "no query was answered"


def test_checks_of_the_sample_documents_wait_for_them(sound: CheckSubject) -> None:
    found = list(examine_all(CONTRACT_CHECKS, sound, own_documents=False))
    left = {one.check.name for one in found if one.outcome is CheckOutcome.NOT_CHECKED}
    assert left == {check.name for check in CONTRACT_CHECKS if check.own_documents or check.by_name}
    left -= {"processes"}
    assert all("--dataset" in str(one) for one in found if one.check.name in left)


@pytest.mark.parametrize("exit_by", [KeyboardInterrupt, GeneratorExit])
def test_an_interrupt_is_no_violation(tmp_path: Path, exit_by: type[BaseException]) -> None:
    def interrupted(*_: object) -> Answer:
        raise exit_by

    with standing(Toy(interrupted), tmp_path) as subject, pytest.raises(exit_by):
        examine(BY_NAME["answers"], subject)


@pytest.mark.parametrize(
    "full",
    [
        OSError(errno.ENOSPC, "No space left on device"),
        shutil.Error([("a", "b", "[Errno 28] No space left on device: 'b'")]),
    ],
    ids=["written", "copied"],
)
def test_a_full_disk_is_no_violation(sound: CheckSubject, full: Exception) -> None:
    def violations(_: CheckSubject) -> Iterator[str]:
        raise full
        yield ""

    with pytest.raises(OSError, match="No space left"):
        examine(replace(CONTRACT_CHECKS[0], violations=violations), sound)


def test_an_exit_of_the_engine_is_a_violation(tmp_path: Path) -> None:
    with standing(Toy(lambda *_: sys.exit(0)), tmp_path) as subject:
        finding = examine(BY_NAME["answers"], subject)
        with pytest.raises(NotChecked):
            subject.answered()
    assert "raised SystemExit: 0" in finding.violations[0]


def test_a_long_query_is_quoted_by_its_beginning() -> None:
    assert quoted("x" * 100) == repr("x" * 40 + "…")
    assert quoted("\0") == "'\\x00'"


def test_what_is_quoted_of_an_engine_is_short_and_printable(tmp_path: Path) -> None:
    """An id of a million characters filled a message with a line of a million."""
    strange = "\x1b[31m\u202e" + "x" * 1_000_000
    with standing(Toy(lambda *_: sys.exit(strange)), tmp_path) as subject:
        (said,) = examine(BY_NAME["answers"], subject).violations[:1]
    assert len(said) <= LONGEST
    assert said.isprintable()


def test_the_page_lists_every_check_with_its_promise() -> None:
    text = page("docs/how-to/check-engine.md").section("What is checked")
    for known in CONTRACT_CHECKS:
        assert f"| `{known.name}` | {known.promise} |\n" in text
    assert text.count("\n| `") == len(CONTRACT_CHECKS)


def test_an_engine_that_answers_nothing_is_told_so_once(tmp_path: Path) -> None:
    with standing(Toy(raises(lambda _: True)), tmp_path) as subject:
        first, *rest = examine_all(CONTRACT_CHECKS, subject, own_documents=True)
    assert first.broken
    assert "raised ValueError: fts5: syntax error" in str(first)
    assert {(one.outcome, one.reason) for one in rest} == {
        (CheckOutcome.NOT_CHECKED, "no query was answered")
    }


SAMPLE = CheckSample(DOCUMENTS, ("red cone", "blue cone", "green ball"), own=False)


@pytest.fixture
def served() -> Iterator[Served]:
    with serving() as running:
        yield running


def findings(
    served: Served, folder: Path, sample: CheckSample | None = SAMPLE, **changed: str | None
) -> dict[str, CheckFinding]:
    path = folder / "mine.toml"
    path.write_text(served.toml(**changed), encoding="utf-8")
    found = check(str(path), folder / "cache", sample).findings
    assert [one.check for one in found] == list(checks.MAPPING_CHECKS)
    return {one.check.name: one for one in found}


@pytest.mark.slow
def test_a_file_that_fits_keeps_all_promises(served: Served, tmp_path: Path) -> None:
    found = findings(served, tmp_path)
    assert {one.outcome for one in found.values()} == {CheckOutcome.HOLDS}, found


def ascending(answer: dict[str, Any]) -> None:
    for at, hit in enumerate(answer["hits"]):
        hit["score"] = float(at)


def alternating() -> Callable[[dict[str, Any]], None]:
    """Turn equal scores around in every second answer."""
    turn = count()

    def change(answer: dict[str, Any]) -> None:
        if next(turn) % 2:
            hits = answer["hits"]
            hits.sort(key=lambda hit: (-hit["score"], [-ord(c) for c in hit["id"]]))

    return change


@pytest.mark.slow
@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("name", "change", "words"),
    [
        ("answers", lambda a: a.pop("hits"), "hits: nothing matches 'hits' | Correct the key"),
        ("answers", lambda a: [hit.pop("id") for hit in a["hits"]], "hit 1 has no id"),
        ("finds", lambda a: a["hits"].clear(), "none of 3 queries of the data set | --dataset"),
        ("once", lambda a: a.update(hits=a["hits"][:1] * 2), "is shown 2 times | collapse"),
        ("descending scores", ascending, "hit 2 scores 1, the one above 0 | no distance"),
        ("order of ties", alternating(), "instead of | sort by score and then by id"),
        ("total", lambda a: a.update(total=1), "total is 1, and 4 hits are shown | of a page"),
    ],
)
def test_what_is_wrong_is_said_in_words(
    served: Served, tmp_path: Path, name: str, change: Callable[..., object], words: str
) -> None:
    served.change = change
    broken = findings(served, tmp_path)[name]
    assert broken.outcome is CheckOutcome.BROKEN
    for said in words.split(" | "):
        assert said in str(broken)


@pytest.mark.slow
def test_ids_that_the_data_set_lacks_are_named(served: Served, tmp_path: Path) -> None:
    served.change = lambda answer: [hit.update(id=f"x{hit['id']}") for hit in answer["hits"]]
    kept = findings(served, tmp_path, unknown_ids='"keep"')["ids"]
    assert "no hit is a document of the data set, the first has the id 'xd0'" in kept.violations[0]
    refused = findings(served, tmp_path)["answers"]
    assert "is the id of no document of the data set. Correct id" in refused.violations[0]


@pytest.mark.slow
def test_a_number_of_hits_that_is_ignored_is_named(served: Served, tmp_path: Path) -> None:
    sent = """'{"text": "${text}", "limit": "${k}"}'"""
    broken = findings(served, tmp_path, body=sent)["k"]
    assert "4 hits were shown, 1 were requested" in broken.violations[0]
    assert "such as size, limit or rows" in broken.check.hint


@pytest.mark.slow
def test_without_a_data_set_ids_are_not_checked(served: Served, tmp_path: Path) -> None:
    found = findings(served, tmp_path, None)
    assert found["ids"].outcome is CheckOutcome.NOT_CHECKED
    assert "--dataset" in found["ids"].reason
    assert found["processes"].outcome is CheckOutcome.NOT_CHECKED
    assert "queries of the harness has a hit" in str(found["finds"])


@pytest.mark.slow
def test_what_the_file_does_not_read_is_not_checked(served: Served, tmp_path: Path) -> None:
    found = findings(served, tmp_path, score=None, total=None)
    assert found["total"].reason == "the file reads no total"
    assert found["descending scores"].reason == "the file reads no score"


(CHECK,) = answers.PROCESS_CHECKS
RETURN = "return Answer(by_best(named, k), self.manifest.fingerprint)"
HASHED = (
    "return Answer(tuple(hit._replace(score=1 / (1 + hash(hit.doc_id) % 10**6))"
    " for hit in by_best(named, k)), self.manifest.fingerprint)"
)


def examined(folder: Path, after: str, *, later: str = "") -> CheckFinding:
    """Check the example with another last line; ``later`` replaces it once the index is open."""
    for file in (ROOT / "examples" / "own_engine").glob("own.*"):
        shutil.copy(file, folder)
    own = folder / "own.py"
    text = own.read_text("utf-8")
    assert RETURN in text
    own.write_text(text.replace(RETURN, after), "utf-8")
    arm = Named(str(folder / "own.toml"), folder / "cache")
    with standing(registry.load(*arm), folder, arm=arm) as subject:
        if later:
            own.write_text(text.replace(RETURN, later), "utf-8")
        return examine(CHECK, subject)


@pytest.mark.slow
def test_an_engine_whose_answers_rest_on_its_documents_passes(tmp_path: Path) -> None:
    printing = f"print('searching', end='')\n        {RETURN}"
    assert examined(tmp_path, printing).outcome is CheckOutcome.HOLDS


@pytest.mark.slow
def test_an_engine_whose_answers_rest_on_hashes_is_named(tmp_path: Path) -> None:
    finding = examined(tmp_path, HASHED)
    assert finding.broken
    assert finding.violations[0].endswith(", in another process")
    assert "To fix: Sort what comes out of a set" in str(finding)


@pytest.mark.slow
def test_a_process_that_fails_is_a_violation(tmp_path: Path) -> None:
    finding = examined(tmp_path, RETURN, later="return ((")
    assert finding.violations[0].startswith("the other process failed: ")
    assert "own.py cannot be imported: SyntaxError" in finding.violations[0]


@pytest.mark.slow
def test_an_engine_that_is_an_object_is_not_checked(tmp_path: Path) -> None:
    with standing(Toy(), tmp_path) as subject:
        finding = examine(CHECK, subject)
    assert (finding.outcome, "TOML file" in finding.reason) == (CheckOutcome.NOT_CHECKED, True)


@pytest.mark.slow
def test_the_other_end_answers_what_stands_on_its_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arm = Named("fts5", tmp_path / "cache")
    with standing(registry.load(*arm), tmp_path) as subject:
        given = {"arm": "fts5", "cache": str(arm.cache), "index": str(subject.index)}
        asked = {**given, "queries": [["honey bees hive", 2], ["zzz", 2]]}
        monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps(asked)))
        answers.answer()
    found, nothing = json.loads(capsys.readouterr().out)
    assert found == ["", [["bees", 1.0]]]
    assert nothing == ["", []]
