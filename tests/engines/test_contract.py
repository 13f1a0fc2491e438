"""Contracts of engines, and every arm against them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from pathlib import Path
from shutil import rmtree
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from benchmarks.rebuilds import ARMS, WHOLE, WORDS, build, seen, watched
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
from harness.core.digest import of_documents, of_json
from harness.core.engine import Engine, Manifest, Searcher
from harness.core.errors import (
    BadPolicy,
    HarnessError,
    IndexNotReady,
    InvalidArm,
    ModelNotReady,
    NotInstalled,
)
from harness.core.records import Document
from harness_engines import contract
from harness_engines import registry as arms
from harness_engines.contract import (
    StackSettings,
    line_of_key,
    line_of_value,
    opened_whole,
    sort_by_id,
)
from tests.docs.pages import ROOT
from tests.engines.conftest import Standing
from tests.thinned import examples

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)


@given(st.lists(st.tuples(TEXTS, TEXTS, TEXTS)))
def test_rows_come_in_code_point_order(rows: list[tuple[str, str, str]]) -> None:
    assert list(sort_by_id(iter(rows))) == sorted(rows)


class Weighed(StackSettings):
    """Settings to test with."""

    weight: float
    depth: int


def test_what_is_given_is_kept_and_frozen() -> None:
    settings = Weighed.model_validate({"weight": 1, "depth": 2})
    assert settings.model_dump() == {"weight": 1.0, "depth": 2}
    with pytest.raises(ValidationError):
        settings.depth = 3


@pytest.mark.parametrize(
    "given",
    [
        {"weight": 1.0},
        {"weight": 1.0, "depth": 2, "more": 3},
        {"weight": "1.0", "depth": 2},
        {"weight": 1.0, "depth": 2.0},
        {"weight": 1.0, "depth": True},
        {"weight": float("nan"), "depth": 2},
        {"weight": float("inf"), "depth": 2},
    ],
)
def test_missing_unknown_and_wrong_are_refused(given: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        Weighed.model_validate(given)


TWO = (Document("a", "A", "x"), Document("b", "B", "y"))


def drain(documents: Iterable[Document]) -> None:
    assert list(documents) == list(TWO)


def recorded(index: Path) -> Manifest:
    return contract.record(index, TWO, drain, engine="e", version="1", settings={"b": 1, "a": 2})


def test_it_counts_and_digests_what_was_indexed(index: Path) -> None:
    made = recorded(index)
    assert made == Manifest("e", "1", 2, of_documents(TWO), of_json({"a": 2, "b": 1}))
    assert contract.read(index) == made

    def first(documents: Iterable[Document]) -> None:
        next(iter(documents))

    made = contract.record(index, TWO, first, engine="e", version="1", settings={})
    assert (made.documents, made.corpus_sha256) == (1, of_documents(TWO[:1]))


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


@pytest.mark.parametrize(
    "text",
    [b"", b"{", b"[]", b"3", b"null", b'{"engine": "e"}', b"\xff", b'{"engine": 1, "more": 2}'],
)
def test_what_is_no_manifest_is_not_ready(index: Path, text: bytes) -> None:
    (index / contract.FILE).write_bytes(text)
    with pytest.raises(IndexNotReady, match="Build it again: harness stage index"):
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


def test_a_compound_names_its_parts(index: Path) -> None:
    made = recorded(index)
    left, right = replace(made, engine="left"), replace(made, engine="right")
    whole = contract.joined(index, made, {"one": left, "two": right})
    assert contract.read(index) == whole
    assert json.loads((index / contract.FILE).read_text()) == asdict(whole)
    assert whole.version == contract.joined_version("1", {"one": left, "two": right})
    assert whole.fingerprint != contract.joined(index, made, {"one": left, "two": left}).fingerprint


TEXT = """\
summary = "words"
stack = "hybrid"

[settings]
depth = 5
"" = 3
"a\u2028b=c" = "x\u2028y"
list = [
"e" ] # no key
"d"."e.f" = { g = 1 }

[settings.legs.words]
stack = 'fts5'

[[ 'kinds' ]]
name = 1
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    found = tmp_path / "mine.toml"
    found.write_text(TEXT)
    return found


@pytest.mark.parametrize(
    ("key", "line"),
    [
        (["stack"], 2),
        (["settings", "depth"], 5),
        (["settings", "legs", "words", "stack"], 13),
        (["settings", "legs", "words", "absent"], 12),
        (["settings", "absent"], 4),
        (["absent"], None),
        (["settings", ""], 6),
        (["settings", "a\u2028b=c"], 7),
        (["settings", "list"], 8),
        (["settings", "d", "e.f"], 10),
        (["kinds", "name"], 16),
        (["kinds", "absent"], 15),
    ],
)
def test_a_key_or_its_innermost_table(path: Path, key: list[str], line: int | None) -> None:
    assert line_of_key(path, key) == line


@pytest.mark.parametrize(("value", "line"), [("words", 1), ("fts5", 13), ("5", None), ("", None)])
def test_a_text_that_a_key_has(path: Path, value: str, line: int | None) -> None:
    assert line_of_value(path, value) == line


def test_ends_of_lines_as_windows_writes_them_change_no_number(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_bytes(b'stack = "text"\r\n[settings]\r\nk = 5\r\n[settings.a]\r\nb = 1\r\n')
    assert line_of_key(path, ["settings", "k"]) == 3
    assert line_of_key(path, ["settings", "a", "b"]) == 5
    path = tmp_path / "mine.toml"
    path.write_text('[settings]\nx = [\n  ["a", "b"],\n]\nk = 1\n')
    assert line_of_key(path, ["settings", "k"]) == 5
    assert line_of_key(path, ["settings", "absent"]) == 1
    assert line_of_key(path, ["other"]) is None


OWN = ROOT / "examples" / "own_engine" / "own.toml"
REMOTE = ROOT / "examples" / "remote_mcp" / "over-stdio.toml"


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


@pytest.mark.usefixtures("none_allowed")
def test_nothing_of_it_is_run(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    (tmp_path / "own.toml").write_text('summary = "s"\nstack = "own.py"\n')
    with pytest.raises(InvalidArm):
        arms.load(str(tmp_path / "own.toml"), tmp_path)
    assert not (tmp_path / "ran").exists()


@pytest.mark.usefixtures("none_allowed")
@pytest.mark.parametrize("name", arms.names())
def test_the_arms_of_the_program_bring_none(name: str, tmp_path: Path) -> None:
    assert arms.load(name, tmp_path).name == name


@pytest.mark.parametrize("value", ["", "0"])
def test_it_is_allowed_by_default(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, value: str
) -> None:
    monkeypatch.setenv(contract.NO_CODE, value)
    assert arms.load(str(OWN), tmp_path).name == "own"
    assert arms.load(str(REMOTE), tmp_path).name == "over-stdio"


@pytest.mark.slow
@pytest.mark.parametrize(
    "words", [("--no-code", "stage", "index"), ("stage", "index", "--no-code")]
)
def test_the_option_counts_on_either_side(tmp_path: Path, words: tuple[str, ...]) -> None:
    command = [sys.executable, "-m", "harness", *words, "--dataset", "python-docs"]
    done = subprocess.run(
        [*command, "--arm", str(OWN)], cwd=ROOT, capture_output=True, text=True, check=False,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )  # fmt: skip
    assert done.returncode == 2
    assert "the arm own brings code" in done.stderr


@pytest.mark.parametrize("before", [None, "0", "1"])
def test_processes_inherit_the_ban(monkeypatch: pytest.MonkeyPatch, before: str | None) -> None:
    monkeypatch.delenv(contract.NO_CODE, raising=False)
    if before is not None:
        monkeypatch.setenv(contract.NO_CODE, before)
    with contract.forbidden():
        assert not contract.allowed()
        asked = "from harness_engines import contract as brought; print(brought.allowed())"
        done = subprocess.run([sys.executable, "-c", asked], capture_output=True, check=True)
        assert done.stdout == b"False\n"
    assert os.environ.get(contract.NO_CODE) == before


def test_an_error_that_says_enough_is_left_alone(tmp_path: Path) -> None:
    for raised in (BadPolicy("a.toml", "no key", "Mend it"), KeyboardInterrupt()):
        with pytest.raises(type(raised)), contract.named("own", "fails"):
            raise raised
    with pytest.raises(ZeroDivisionError), contract.named("own", "fails", but=ZeroDivisionError):
        raise ZeroDivisionError
    says = "own: fails: ZeroDivisionError: by nothing"
    with pytest.raises(HarnessError, match=says), contract.named("own", "fails"):
        raise ZeroDivisionError("by nothing")
    arm = arms.load("fts5", tmp_path)
    arm.build([], tmp_path)
    with pytest.raises(ZeroDivisionError), arm.open(tmp_path):
        raise ZeroDivisionError


@pytest.mark.sampled(1)
@pytest.mark.slow
@pytest.mark.parametrize("arm", ARMS)
def test_no_reader_sees_a_part(
    tmp_path: Path,
    arm: str,
    draws: Any,  # noqa: ANN401  a fixture
) -> None:
    found = watched(arms.load(arm, tmp_path / "cache"), tmp_path, draws(8, 1_000))
    assert set(found) == {WHOLE}
    assert found[WHOLE] > 8


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


def test_what_is_wrong_with_one_index_is_said(tmp_path: Path) -> None:
    arm = arms.load("fts5", tmp_path / "cache")
    with pytest.raises(IndexNotReady, match="no index here"), arm.open(tmp_path / "index"):
        pass
    build(arm, WORDS[0], tmp_path / "index")
    (tmp_path / "index" / "fts5.db").write_bytes(b"")
    with pytest.raises(IndexNotReady, match="Build it again"), arm.open(tmp_path / "index"):
        pass


def test_an_unsteady_index_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contract, "PATIENCE_S", 0.05)
    (tmp_path / "index").mkdir()
    engine = Opens(1_000_000)
    refused = pytest.raises(IndexNotReady, match="built anew all the time")
    with refused, opened_whole(cast("Engine", engine), tmp_path / "index"):
        pass
    assert engine.open_now == 0


def test_a_reader_of_two_indexes_would_be_seen(tmp_path: Path) -> None:
    arm = arms.load("fts5", tmp_path / "cache")
    made = {build(arm, word, tmp_path / word).fingerprint: word for word in WORDS}
    assert [seen(arm, tmp_path / word, made) for word in WORDS] == [WHOLE, WHOLE]
    one, other = (tmp_path / word / "fts5.db" for word in WORDS)
    other.write_bytes(one.read_bytes())
    assert seen(arm, other.parent, made) == "of alder it has 40 documents instead of 0"
    rmtree(other.parent)
    assert seen(arm, other.parent, made) == "it is refused: IndexNotReady"


def stack_of(arm: str) -> str:
    return str(tomllib.loads(arms.path_of(arm).read_text(encoding="utf-8"))["stack"])


LONGEST, LONG, LONG_ENOUGH = 10_000, 3_000, 1_000
FIRSTS = {
    *{stack_of(name): name for name in reversed(arms.names())}.values(),
    "code-tantivy", "documents-pro", "hybrid", "mail-rerank", "mail-tantivy",
}  # fmt: skip
"""The first arm of each stack, and those with most parts: they get the longest texts of a run
(under ``--all`` the first number of words), their sisters the last number."""
STARTED = ("code-tantivy", "documents-free", "fts5", "mail-tantivy", "writing-best")
"""Arms with sets and mappings of their own, which are opened in another process too."""


@pytest.fixture(scope="session")
def subject(standing: Standing, pytestconfig: pytest.Config) -> CheckSubject:
    longest = LONGEST if pytestconfig.getoption("--all") else LONG
    words = longest if standing.arm.name in FIRSTS else LONG_ENOUGH
    return CheckSubject(
        standing.arm, standing.built, standing.index, standing.searcher, long_words=words
    )


@pytest.mark.slow
@pytest.mark.sampled(400)
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
@pytest.mark.parametrize(("text", "doc_id"), OBVIOUS.items())
def test_the_obvious_document_comes_first(standing: Standing, text: str, doc_id: str) -> None:
    assert standing.searcher.search(text, 3).hits[0].doc_id == doc_id


@pytest.mark.slow
def test_no_two_arms_share_an_identity(tmp_path: Path) -> None:
    made = {}
    for name in arms.names():
        (tmp_path / name).mkdir()
        engine = arms.load(name, tmp_path / "cache").engine
        made[name] = engine.build(DOCUMENTS[:1], tmp_path / name).fingerprint
    assert len(set(made.values())) == len(made)
