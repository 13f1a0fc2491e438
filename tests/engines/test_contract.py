"""Contracts of engines, the folder of arms, and every arm against the contract."""

import re
import sys
import time
import tomllib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.check import subject as checked
from harness.check.answers import every_answer
from harness.check.checks import CONTRACT_CHECKS
from harness.check.subject import DOCUMENTS, Check, CheckSubject, examine
from harness.core import errors
from harness.core.engine import Answer, Engine, Searcher
from harness.core.errors import BadPolicy, IndexNotReady, InvalidArm
from harness.core.records import Document
from harness_engines import contract
from harness_engines import registry as arms
from harness_engines.contract import opened_whole
from tests import once_a_process
from tests.engines.conftest import Standing
from tests.source import ROOT
from tests.thinned import examples


@pytest.mark.parametrize(
    ("named", "said"),
    [
        ("lucene", f"no arm named 'lucene'; there is {', '.join(arms.names())}"),
        ("nowhere.toml", r"nowhere\.toml: no such file"),
        ("own.py", r"own\.py: an arm is a \.toml file"),
        ("no.such:search", "such: no.such cannot be imported"),
        ("absent.py:search", "no file absent.py"),
        ("json:search", "no such function. Define search"),
    ],
)
def test_what_is_no_arm_is_told_what_there_is(tmp_path: Path, named: str, said: str) -> None:
    with pytest.raises(errors.HarnessError, match=said):
        arms.load(named, tmp_path)


def written(tmp_path: Path, text: str) -> str:
    path = tmp_path / "mine.toml"
    path.write_text(text, encoding="utf-8")
    return str(path)


def arm_text(arm: str) -> str:
    return (arms.FOLDER / f"{arm}.toml").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arm", "before", "after", "line", "said"),
    [
        ("fts5", "text_weight = 1.0", "text_wait = 1.0", 6, "settings.text_wait"),
        ("fts5", "title_weight = 2.0", 'title_weight = "2"', 5, "settings.title_weight"),
        ("fts5", "title_weight = 2.0", "title_weight = inf", 5, "settings.title_weight"),
        ("fts5", 'tokenize = "unicode61"', "", 3, "settings.tokenize"),
        ("fts5", 'stack = "fts5"', 'stack = "fts5"\nk = 3', 3, "k: Extra inputs"),
        ("fts5", "summary = ", "summary = []  # ", 1, "summary: Input should be"),
        ("fts5", r"\[settings\]", "[settings", 3, "not TOML"),
        ("fts5", 'stack = "fts5"', "", None, "stack: Field required"),
        ("fts5", 'stack = "fts5"', 'stack="fts"', 2, "no stack named 'fts'"),
        ("hybrid-rrf", '"dense"\nweight = 1.0', '"dense"\nweight = ""', 19, "legs.semantic.weight"),
        ("hybrid-rrf", r"legs\.semantic", 'legs."../other"', 3, "settings.legs"),
        ("hybrid-rrf", r"\[settings\.legs\.semantic.*", "", 3, "at least 2"),
        ("writing", '"phrase"', '"phrases"', 7, "settings.queries: "),
        ("dense", '"all-MiniLM-L6-v2"', '"all-MiniLM-L6"', 4, "no model named 'all-MiniLM-L6'"),
        ("documents-free", '"all-MiniLM-L6-v2"', '"all-MiniLM-L6"', 5, "Write all-MiniLM-L6-v2"),
    ],
)
def test_a_wrong_file_is_named_with_its_line_and_key(  # noqa: PLR0917  values of a row
    tmp_path: Path, index: Path, arm: str, before: str, after: str, line: int | None, said: str
) -> None:
    """Whether it is seen when the arm is made or built."""
    name = written(tmp_path, re.sub(before, after, arm_text(arm), count=1, flags=re.DOTALL))
    with pytest.raises(BadPolicy) as told:
        arms.load(name, tmp_path).build([Document("d", "", "words")], index)
    assert (told.value.path, told.value.line) == (Path(name), line)
    assert said in f"{told.value.problem} {told.value.hint}"
    assert told.value.hint


def test_a_line_of_a_hundred_thousand_spaces_takes_no_time(tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    path.write_text(f"body = '''\na{' ' * 100_000}b\n{' ' * 100_000}\n'''\nk = 1\n")
    began = time.process_time()
    assert contract.line_of_key(path, ["k"]) == 5
    assert time.process_time() - began < 1


@pytest.mark.parametrize("arm", ["code-words", "documents-bm25", "fts5", "mail-fts5", "writing"])
def test_a_setting_that_no_stack_has_is_told_those_that_there_are(tmp_path: Path, arm: str) -> None:
    text = arm_text(arm)
    with pytest.raises(BadPolicy) as told:
        arms.load(written(tmp_path, text.replace("[settings]", "[settings]\nown = 1", 1)), tmp_path)
    known = tomllib.loads(text)["settings"]
    assert known.keys() <= set(re.findall(r"\w+", told.value.hint.partition(" has ")[2]))


OWN = ROOT / "examples" / "own_engine"


@pytest.mark.parametrize(
    "path", ["http_engine/http.toml", "remote_mcp/over-http.toml", "own_engine/own.toml"]
)
def test_processes_share_what_lies_in_files_of_ours(path: str, tmp_path: Path) -> None:
    assert arms.load("fts5", tmp_path).shared
    assert not arms.load(str(ROOT / "examples" / path), tmp_path).shared


def test_a_stack_file_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    path = written(tmp_path, (OWN / "own.toml").read_text("utf-8").replace("k1 = 1.2", "k1 = -1"))
    with pytest.raises(BadPolicy, match=r"no file .*own\.py"):
        arms.load(path, tmp_path)
    (tmp_path / "own.py").write_text("")
    with pytest.raises(BadPolicy, match="no function engine"):
        arms.load(path, tmp_path)
    (tmp_path / "own.py").write_text((OWN / "own.py").read_text("utf-8"))
    with pytest.raises(BadPolicy, match=r"settings\.k1") as told:
        arms.load(path, tmp_path)
    assert told.value.line == 4


COUNTED = (Document("a", "", "x"), Document("b", "", "y"), Document("7", "", "z"))


def answer(folder: Path, body: str) -> Answer:
    file = folder / "ours.py"
    file.write_text(f"def search(text, k):\n    return {body}\n")
    arm = arms.load(f"{file}:search", folder)
    (folder / "index").mkdir(exist_ok=True)
    arm.build(COUNTED, folder / "index")
    with arm.open(folder / "index") as searcher:
        return searcher.search("x", 10)


@pytest.mark.parametrize(
    ("body", "hits"),
    [
        ("['b', 'a']", [("b", 1.0, 1.0), ("a", 0.5, 0.5)]),
        ("[('b', 4.0), ('a', 1)]", [("b", 1.0, 4.0), ("a", 0.25, 1.0)]),
        ("[('b', 2.0), ('a', 2.0), (7, -1.0)]", [("a", 1.0, 2.0), ("b", 1.0, 2.0), ("7", 0, -1)]),
        ("[]", []),
    ],
)
def test_ids_or_pairs_become_hits(tmp_path: Path, body: str, hits: list[tuple[object]]) -> None:
    assert [tuple(hit) for hit in answer(tmp_path, body).hits] == hits


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("[('a', 1.0), ('b', 2.0)]", "higher than the one before"),
        ("[('a', float('nan'))]", "which is not finite"),
        ("[None]", "give an id, or a pair"),
    ],
)
def test_what_is_no_ranking_is_refused(tmp_path: Path, body: str, said: str) -> None:
    with pytest.raises((TypeError, ValueError), match=said):
        answer(tmp_path, body)


def test_another_text_is_another_engine_and_its_index_is_refused(tmp_path: Path) -> None:
    before = answer(tmp_path, "['a']").served_by
    (tmp_path / "words.py").write_text("")
    beside = arms.load(f"{tmp_path / 'ours.py'}:search", tmp_path)
    with (
        pytest.raises(IndexNotReady, match="was built by another arm"),
        beside.open(tmp_path / "index"),
    ):
        pass
    assert answer(tmp_path, "['a']").served_by != before


def test_modules_of_the_repository_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "src" / "shop_of_a_test"
    package.mkdir(parents=True)
    (tmp_path / ".git").mkdir()
    (package / "__init__.py").write_text("")
    (package / "rank.py").write_text("def best(text, k):\n    return ['a'][:k]\n")
    (tmp_path / "search-eval").mkdir()
    monkeypatch.chdir(tmp_path / "search-eval")
    monkeypatch.setattr(sys, "path", [*sys.path])
    arm = arms.load("shop_of_a_test.rank:best", tmp_path)
    assert arm.name == arms.name_of("shop_of_a_test.rank:best") == "rank.best"
    assert arm.path == package / "rank.py"
    (package / "deeper").mkdir()
    (package / "deeper" / "words.py").write_text("")
    again = arms.load("shop_of_a_test.rank:best", tmp_path)
    assert again.engine != arm.engine, "a file of the package is part of the engine"


TWO = (Document("a", "A", "x"), Document("b", "B", "y"))


def test_an_interrupted_building_leaves_none(index: Path) -> None:
    def killed(documents: Iterable[Document]) -> None:
        list(documents)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        contract.record(index, TWO, killed, engine="e", version="1", settings={})
    with pytest.raises(IndexNotReady, match="no index here"):
        contract.read(index)
    (index / contract.FILE).mkdir()
    with pytest.raises(IndexNotReady):
        contract.read(index)


def test_who_opens_must_be_who_built(index: Path) -> None:
    given: dict[str, Any] = {"engine": "e", "version": "1", "settings": {"a": 2, "b": 1}}
    taken: list[Document] = []
    made = contract.record(index, TWO, taken.extend, **given)
    assert taken == [*TWO]
    contract.check_count(index, made, 2)
    with pytest.raises(IndexNotReady, match="says 2 documents, the index holds 3"):
        contract.check_count(index, made, 3)
    contract.check_made_by(index, made, **{**given, "settings": {"b": 1, "a": 2}})
    for changed, says in (
        ({"engine": "f"}, "engine 'e' is now 'f'"),
        ({"version": "2"}, "version '1' is now '2'"),
        ({"settings": {"a": 2}}, "settings_sha256"),
    ):
        with pytest.raises(IndexNotReady, match=says):
            contract.check_made_by(index, made, **{**given, **changed})


@pytest.mark.parametrize("path", sorted(ROOT.glob("examples/**/*.toml")), ids=lambda p: p.stem)
def test_every_example_that_brings_code_is_refused_by_name(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(contract.NO_CODE, "1")
    text = path.read_text(encoding="utf-8")
    if re.search(r'stack = ".*\.py"|command = \[.+\]', text):
        with pytest.raises(InvalidArm, match=f"the arm {path.stem} brings code"):
            arms.load(str(path), tmp_path)
    elif "stack =" in text:
        with suppress(errors.NotInstalled, errors.ModelNotReady):
            arms.load(str(path), tmp_path)


class Opens:
    """Opens nothing, and lets another folder take the place of the index while it does."""

    def __init__(self, times: int, error: Exception | None = None) -> None:
        self.left, self.error = times, error
        self.open_now = self.opened = 0

    @contextmanager
    def open(self, index: Path) -> Iterator[Searcher]:
        self.opened += 1
        self.open_now += 1
        try:
            if self.left:
                self.left -= 1
                index.rename(index.with_name(f"old{self.opened}"))
                index.mkdir()
                if self.error:
                    raise self.error
            yield cast("Searcher", index.stat().st_ino)
        finally:
            self.open_now -= 1


@pytest.mark.parametrize("error", [None, IndexNotReady("cut"), KeyError("part")])
def test_a_half_open_pair_is_opened_again(tmp_path: Path, error: Exception | None) -> None:
    index = tmp_path / "index"
    index.mkdir()
    engine = Opens(2, error)
    with opened_whole(cast("Engine", engine), index) as searcher:
        assert cast("Any", searcher) == index.stat().st_ino
        assert (engine.opened, engine.open_now) == (3, 1)
    assert engine.open_now == 0


LONGEST, LONG = 10_000, 300
FIRSTS = {
    *{tomllib.loads(arm_text(name))["stack"]: name for name in reversed(arms.names())}.values(),
    "code-tantivy", "documents-pro", "hybrid", "mail-rerank", "mail-tantivy",
}  # fmt: skip
"""The first arm of each stack, and those with most parts: under ``--all`` they get texts of so many
words, else ``LONG``, as their sisters."""
STARTED = ("code-tantivy", "documents-free", "fts5", "mail-tantivy", "writing-best")
"""Arms with sets and mappings of their own, which are opened in another process too."""


@pytest.fixture(scope="session")
def subject(standing: Standing, pytestconfig: pytest.Config) -> CheckSubject:
    words = LONGEST if pytestconfig.getoption("--all") and standing.arm.name in FIRSTS else LONG
    return CheckSubject(
        standing.arm, standing.built, standing.index, standing.searcher, long_words=words
    )


@pytest.mark.slow
@pytest.mark.sampled(160)
@pytest.mark.parametrize("check", [one for one in CONTRACT_CHECKS if not one.by_name], ids=str)
def test_it_keeps_the_contract(subject: CheckSubject, check: Check) -> None:
    finding = examine(check, subject)
    assert finding.outcome is checked.CheckOutcome.HOLDS, str(finding)


@pytest.mark.slow
@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", STARTED)
def test_another_process_gets_the_same_answers(name: str, tmp_path: Path) -> None:
    arm = checked.Named(name, tmp_path / "cache")
    with checked.standing(arms.load(*arm), tmp_path, arm=arm) as subject:
        (found,) = (examine(check, subject) for check in CONTRACT_CHECKS if check.by_name)
    assert found.outcome is checked.CheckOutcome.HOLDS, str(found)


@pytest.mark.slow
@settings(
    max_examples=examples(50),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    text=st.one_of(
        st.text(max_size=60),
        st.text('ab "+-NOTANDR(:*_', max_size=40),
        st.lists(st.sampled_from(["water", "the", '"', "+", "-", "NOT", "sea"])).map(" ".join),
    ),
    k=st.integers(1, 20),
)
def test_any_text_keeps_the_contract(subject: CheckSubject, text: str, k: int) -> None:
    assert list(every_answer(checked.ask(subject.searcher, text, k), subject)) == []


@pytest.mark.slow
def test_the_obvious_document_comes_first(standing: Standing) -> None:
    for text, doc_id in checked.OBVIOUS.items():
        assert standing.searcher.search(text, 3).hits[0].doc_id == doc_id, text


@pytest.mark.slow
def test_no_two_arms_share_an_identity(tmp_path: Path) -> None:
    made = {}
    for name in arms.names():
        (tmp_path / name).mkdir()
        with once_a_process.models():
            engine = arms.load(name, tmp_path / "cache").engine
            made[name] = engine.build(DOCUMENTS[:1], tmp_path / name).fingerprint
    assert len(set(made.values())) == len(made)
