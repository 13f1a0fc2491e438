"""One template of gates for a control and any candidates."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.core.errors import EvidenceError
from harness.policy.load import for_candidates, load_policy
from harness.policy.model import Policy

FOLDER = Path(__file__).resolve().parents[2] / "policy"


@pytest.fixture
def template() -> Policy:
    return load_policy(FOLDER / "pairwise.toml")


def test_each_candidate_is_judged_by_the_same_gates(template: Policy) -> None:
    policy = for_candidates(template, "old", ["new", "newer"])
    assert [(s.name, s.control, s.candidate) for s in policy.steps] == [
        ("new", "old", "new"),
        ("newer", "old", "newer"),
    ]
    assert {step.gates for step in policy.steps} == {template.steps[0].gates}
    assert policy.rules == template.rules


def test_no_candidate_waits_for_another(template: Policy) -> None:
    assert template.chained
    assert not for_candidates(template, "old", ["new"]).chained


def test_a_migration_is_no_template() -> None:
    migration = load_policy(FOLDER / "migration.toml")
    with pytest.raises(EvidenceError, match=rf"has {len(migration.steps)} steps"):
        for_candidates(migration, "old", ["new"])


def test_somebody_must_be_compared(template: Policy) -> None:
    with pytest.raises(EvidenceError, match="no arm is compared with old"):
        for_candidates(template, "old", [])
