"""``harness plan`` as it is typed: with nothing, with data, with a pilot."""

from __future__ import annotations

import re

import pytest

from tests.cli.conftest import Harness
from tests.make.toy import HEAD, NAME, STEP, Toy

pytestmark = pytest.mark.slow

POLICY = ("plan", "--policy", "policy/toy.toml")
SMALL = """
[[step.gate]]
name = "Quality"
rule = "non_inferior"
measure = "nDCG@10"
margin = 0.02
"""


def test_without_data_margin_and_level_alone_are_answered(project: Toy, harness: Harness) -> None:
    (project.root / "policy" / "toy.toml").write_text(HEAD + STEP + SMALL)
    said = harness(*POLICY)
    assert said.code == 0, said
    assert "by margin and confidence alone" in said.out
    assert "(one query in 50 loses its whole first page)" in said.out
    equal = re.search(r"equal candidate needs about ([\d,]+) judged queries where 30% ", said.out)
    assert equal
    least = said.out.index("needs 188 independent queries at the very least")
    assert equal.start() < least, "what is needed comes before what is needed at the very least"
    assert "not planned further: no pilot" in said.out
    assert "lacks" not in said.out
    assumed = harness(*POLICY, "--spread", "0.2").out
    assert re.search(r"needs [\d,]+ queries for power 0\.8 alone, [\d,]+ for all gates", assumed)


def test_what_the_query_set_lacks_is_said(project: Toy, harness: Harness) -> None:
    (project.root / "policy" / "toy.toml").write_text(HEAD + STEP + SMALL)
    said = harness(*POLICY, "--dataset", NAME)
    assert said.code == 0, said
    match = re.search(r"alone, ([\d,]+) for all gates together, with no true difference", said.out)
    assert match
    lacks = int(match[1].replace(",", "")) - 41
    assert f"has 41: lacks {lacks:,}\n" in said.out
    assert re.search(r"so many pass from a measured \+0\.\d{3} on, and fail below -0\.", said.out)
    assert f"step tantivy lacks: {lacks:,} queries\n" in said.out
    before = harness(*POLICY, "--dataset", project.root / "beir").out
    assert "has 41: lacks 147\n" in before
    assert "no pilot" in before


def test_every_gate_of_the_policy_is_on_the_screen(project: Toy, harness: Harness) -> None:
    assert project
    said = harness(*POLICY, "--dataset", NAME).out
    for gate in ("Who answers", "Answers", "Quality", "Overlap", "Order"):
        assert f"\n  {gate}: " in said


def test_a_policy_of_one_step_is_planned_for_every_arm(project: Toy, harness: Harness) -> None:
    (project.root / "policy" / "toy.toml").write_text(HEAD + STEP + SMALL)
    said = harness(*POLICY, "--dataset", NAME, "--control", "fts5")
    assert said.code == 0, said
    assert "step tantivy: tantivy against fts5" in said.out


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--dataset", "none"), "no dataset named 'none'"),
        (("--from", "x"), "x"),
        (("--dataset", NAME, "--control", "nobody"), "no arm is compared with nobody"),
        (("--policy", "policy/none.toml"), "none.toml: cannot be read"),
    ],
)
def test_bad_input_is_named(
    project: Toy, harness: Harness, words: tuple[str, ...], says: str
) -> None:
    assert project
    assert says in harness(*POLICY, *words).error


def test_a_spread_that_cannot_be_is_refused(project: Toy, harness: Harness) -> None:
    (project.root / "policy" / "toy.toml").write_text(HEAD + STEP + SMALL)
    said = harness(*POLICY, "--spread", "0")
    assert said.code == 2
    assert "cannot have a standard deviation of 0" in said.error
