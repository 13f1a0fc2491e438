"""What every arm of the folder owes the harness, whatever its stack."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.check.answers import every_answer
from harness.check.checks import CONTRACT_CHECKS
from harness.check.subject import (
    DOCUMENTS,
    OBVIOUS,
    Check,
    Named,
    Outcome,
    Subject,
    ask,
    examine,
)
from harness.check.subject import standing as standing_of
from harness_engines import registry as arms
from tests.engines.conftest import Standing
from tests.thinned import examples

pytestmark = pytest.mark.slow


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
def subject(standing: Standing, pytestconfig: pytest.Config) -> Subject:
    longest = LONGEST if pytestconfig.getoption("--all") else LONG
    words = longest if standing.arm.name in FIRSTS else LONG_ENOUGH
    return Subject(
        standing.arm, standing.built, standing.index, standing.searcher, long_words=words
    )


@pytest.mark.sampled(400)
@pytest.mark.parametrize("check", [one for one in CONTRACT_CHECKS if not one.by_name], ids=str)
def test_it_keeps_the_contract(subject: Subject, check: Check) -> None:
    finding = examine(check, subject)
    assert finding.outcome is Outcome.HOLDS, str(finding)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", STARTED)
def test_another_process_gets_the_same_answers(name: str, tmp_path: Path) -> None:
    arm = Named(name, tmp_path / "cache")
    with standing_of(arms.load(*arm), tmp_path, arm=arm) as subject:
        (found,) = (examine(check, subject) for check in CONTRACT_CHECKS if check.by_name)
    assert found.outcome is Outcome.HOLDS, str(found)


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
def test_any_text_keeps_the_contract(subject: Subject, text: str, k: int) -> None:
    assert list(every_answer(ask(subject.searcher, text, k), subject)) == []


@pytest.mark.parametrize(("text", "doc_id"), OBVIOUS.items())
def test_the_obvious_document_comes_first(standing: Standing, text: str, doc_id: str) -> None:
    assert standing.searcher.search(text, 3).hits[0].doc_id == doc_id


def test_no_two_arms_share_an_identity(tmp_path: Path) -> None:
    made = {}
    for name in arms.names():
        (tmp_path / name).mkdir()
        engine = arms.load(name, tmp_path / "cache").engine
        made[name] = engine.build(DOCUMENTS[:1], tmp_path / name).fingerprint
    assert len(set(made.values())) == len(made)
