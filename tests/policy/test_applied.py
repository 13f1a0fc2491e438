"""The steps that a decision judged are those of its policy, or the one step of it per candidate."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.core.errors import EvidenceError
from harness.policy.load import Judged, as_applied, load_policy
from harness.policy.model import Policy
from tests.make.toy import GATES, HEAD, STEP

LATER = STEP.replace('name = "tantivy"', 'name = "hybrid"').replace('"tantivy"', '"hash-hybrid"')
TWO = [Judged("tantivy", "fts5", "tantivy"), Judged("hybrid", "fts5", "hash-hybrid")]


@pytest.fixture
def read(tmp_path: Path) -> Policy:
    path = tmp_path / "two.toml"
    path.write_text(HEAD + STEP + GATES + LATER + GATES)
    return load_policy(path)


def test_the_first_steps_of_a_policy(read: Policy) -> None:
    assert as_applied(read, TWO) == read
    assert as_applied(read, TWO[:1]) == read.until("tantivy")


def test_one_step_for_every_candidate(read: Policy) -> None:
    template = read.until("tantivy")
    judged = [Judged(arm, "bm25", arm) for arm in ("a", "b")]
    found = as_applied(template, judged)
    assert [(s.name, s.control, s.candidate) for s in found.steps] == [*map(tuple, judged)]
    assert not found.chained


@pytest.mark.parametrize(
    "judged",
    [
        [],
        TWO[1:],
        [TWO[0]._replace(control="tantivy")],
        [*TWO, TWO[0]],
        [Judged("tantivy", "fts5", "dense")],
        [Judged("a", "fts5", "a"), Judged("b", "dense", "b")],
    ],
)
def test_a_step_that_was_left_out_or_added_is_refused(read: Policy, judged: list[Judged]) -> None:
    with pytest.raises(EvidenceError, match="were judged, and the policy toy migration has"):
        as_applied(read, judged)
