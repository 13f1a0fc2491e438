"""The policies that come with the project."""

from __future__ import annotations

from pathlib import Path

import pytest

from engines import registry as arms
from harness.policy.load import load_policy
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


@pytest.mark.parametrize("path", POLICIES, ids=lambda path: path.name)
def test_a_bound_has_its_reason_beside_it(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()
    bare = [line for line in lines if line.startswith(BOUNDS) and "#" not in line]
    assert bare == [], f"{path.name}: say why beside each bound"
