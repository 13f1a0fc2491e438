"""Contracts of engines, and every arm against them."""

import re
import tomllib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.check.answers import every_answer
from harness.check.checks import CONTRACT_CHECKS
from harness.check.subject import (
    DOCUMENTS,
    OBVIOUS,
    Check,
    CheckOutcome,
    CheckSubject,
    Named,
    ask,
    examine,
)
from harness.check.subject import standing as standing_of
from harness.core.engine import Engine, Manifest, Searcher
from harness.core.errors import IndexNotReady, InvalidArm, ModelNotReady, NotInstalled
from harness.core.records import Document
from harness_engines import contract
from harness_engines import registry as arms
from harness_engines.contract import opened_whole
from tests.docs.pages import ROOT
from tests.engines.conftest import Standing
from tests.thinned import examples

TWO = (Document("a", "A", "x"), Document("b", "B", "y"))


def drain(documents: Iterable[Document]) -> None:
    assert list(documents) == list(TWO)


def recorded(index: Path) -> Manifest:
    return contract.record(index, TWO, drain, engine="e", version="1", settings={"b": 1, "a": 2})


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
    made = recorded(index)
    contract.check_count(index, made, 2)
    with pytest.raises(IndexNotReady, match="says 2 documents, the index holds 3"):
        contract.check_count(index, made, 3)
    given: dict[str, Any] = {"engine": "e", "version": "1", "settings": {"a": 2, "b": 1}}
    contract.check_made_by(index, made, **given)
    for changed, says in (
        ({"engine": "f"}, "engine 'e' is now 'f'"),
        ({"version": "2"}, "version '1' is now '2'"),
        ({"settings": {"a": 2}}, "settings_sha256"),
    ):
        with pytest.raises(IndexNotReady, match=says):
            contract.check_made_by(index, made, **{**given, **changed})


@pytest.fixture
def none_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(contract.NO_CODE, "1")


@pytest.mark.usefixtures("none_allowed")
@pytest.mark.parametrize("path", sorted(ROOT.glob("examples/**/*.toml")), ids=lambda p: p.stem)
def test_every_example_that_brings_code_is_refused_by_name(path: Path, tmp_path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    if "stack =" not in text:
        return
    brings = re.search(r'stack = ".*\.py"|command = \[.+\]', text)
    if not brings:
        with suppress(NotInstalled, ModelNotReady):
            arms.load(str(path), tmp_path)
        return
    with pytest.raises(InvalidArm, match=f"the arm {path.stem} brings code"):
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


def stack_of(arm: str) -> str:
    return str(tomllib.loads(arms.path_of(arm).read_text(encoding="utf-8"))["stack"])


LONGEST, LONG = 10_000, 1_000
FIRSTS = {
    *{stack_of(name): name for name in reversed(arms.names())}.values(),
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
    assert finding.outcome is CheckOutcome.HOLDS, str(finding)


@pytest.mark.slow
@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", STARTED)
def test_another_process_gets_the_same_answers(name: str, tmp_path: Path) -> None:
    arm = Named(name, tmp_path / "cache")
    with standing_of(arms.load(*arm), tmp_path, arm=arm) as subject:
        (found,) = (examine(check, subject) for check in CONTRACT_CHECKS if check.by_name)
    assert found.outcome is CheckOutcome.HOLDS, str(found)


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
    assert list(every_answer(ask(subject.searcher, text, k), subject)) == []


@pytest.mark.slow
def test_the_obvious_document_comes_first(standing: Standing) -> None:
    for text, doc_id in OBVIOUS.items():
        assert standing.searcher.search(text, 3).hits[0].doc_id == doc_id, text


@pytest.mark.slow
def test_no_two_arms_share_an_identity(tmp_path: Path) -> None:
    made = {}
    for name in arms.names():
        (tmp_path / name).mkdir()
        engine = arms.load(name, tmp_path / "cache").engine
        made[name] = engine.build(DOCUMENTS[:1], tmp_path / name).fingerprint
    assert len(set(made.values())) == len(made)
