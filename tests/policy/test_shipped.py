"""The policies that come with the project."""

from __future__ import annotations

from pathlib import Path

import pytest

from engines import registry as arms
from harness.policy.load import load_policy
from harness.policy.model import Policy
from harness.policy.plan import MOVED
from harness.stats.bounded import Span
from harness.stats.sample_size import Target, min_queries, planned_equal
from tests.source import ROOT

POLICIES = sorted(
    path for path in (ROOT / "policy").glob("*.toml") if "[[step]]" in path.read_text("utf-8")
)
TEMPLATE = {"control", "candidate", "then", "now"}
"""How policies for arms of the command line call them."""
BOUNDS = ("margin", "max_", "min_share", "floor", "evidence_days", "largest_")


@pytest.mark.parametrize("path", POLICIES, ids=lambda path: path.name)
def test_a_policy_can_be_read_and_its_arms_exist(path: Path) -> None:
    named = set(load_policy(path).arms) - TEMPLATE
    assert named <= set(arms.names())


@pytest.mark.parametrize("path", POLICIES, ids=lambda path: path.name)
def test_gates_on_means_say_how_large_a_cluster_may_be(path: Path) -> None:
    policy = load_policy(path)
    assert not policy.measures or 0 < policy.rules.largest_cluster < 0.005


def counts(policy: Policy) -> list[int]:
    """Count what a margin of 0.02 costs by the policy's own error budget and clusters."""
    rules, bound, span = policy.rules, -0.02, Span(-1.0, 1.0)
    each = [
        planned_equal(
            moved, Target(0.0, bound), span=span, confidence=rules.confidence, power=rules.power,
            largest=rules.largest_cluster,
        )
        for moved in MOVED
    ]  # fmt: skip
    least = min_queries(0.0, bound, span=span, level=policy.level, largest=rules.largest_cluster)
    return [least, *(count or 0 for count in each)]


def costs(policy: Policy) -> list[str]:
    """Say in the comment of a policy what a margin of 0.02 costs."""
    least, few, some, many, _ = counts(policy)
    said = (
        "# A margin says how many queries it takes, so none is asked for beside it (harness plan)."
        f" An equal candidate needs about {many:,} judged\n# queries at 0.02 where 30 % of them"
        f" move by half, {some:,} where 10 % do, {few:,} where 2 % do. None passes with fewer than"
        f" {least:,}."
    )
    return said.splitlines()


@pytest.mark.parametrize("name", ["regress", "migration"])
def test_the_page_says_what_a_verdict_costs(name: str) -> None:
    page = (ROOT / "docs" / "statistics.md").read_text(encoding="utf-8")
    each = counts(load_policy(ROOT / "policy" / f"{name}.toml"))
    assert f"(`policy/{name}.toml`) | " + " | ".join(f"{one:,}" for one in each) + " |" in page


@pytest.mark.parametrize("path", POLICIES, ids=lambda path: path.name)
def test_a_policy_with_margins_says_what_they_cost(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    said = "\n".join(costs(load_policy(path)))
    assert (said in text) is ("\nmargin = " in text), said


@pytest.mark.parametrize("path", POLICIES, ids=lambda path: path.name)
def test_a_bound_has_its_reason_beside_it(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()
    bare = [line for line in lines if line.startswith(BOUNDS) and "#" not in line]
    assert bare == [], f"{path.name}: say why beside each bound"
