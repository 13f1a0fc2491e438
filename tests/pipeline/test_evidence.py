"""Evidence is put together from what the stages left, and only if it belongs together."""

from __future__ import annotations

import pytest

from harness.core.errors import EvidenceError
from harness.pipeline.evidence import gathered, pairs_of, sides
from tests.make.toy import ARMS, CANDIDATE, CONTROL, Toy

PAIRS = {"step": (CONTROL, CANDIDATE)}


def test_a_side_is_an_arm_as_it_was_measured(measured: Toy) -> None:
    found = sides(measured.layout, ARMS)
    for arm in ARMS:
        assert found[arm].run.arm == arm
        assert set(found[arm].run.served_by) == {found[arm].manifest.fingerprint}
        assert set(found[arm].scores) == set(measured.params.score.measures)


def test_evidence_is_of_one_pair_with_the_others_beside(measured: Toy) -> None:
    found = gathered(measured.layout, PAIRS, sides(measured.layout, ARMS), None)["step"]
    assert (found.control.arm, found.candidate.arm) == (CONTROL, CANDIDATE)
    assert set(found.others) == {"hash-hybrid"}
    assert {name: len(ids) for name, ids in found.slices.items()} == {
        "identifier": 11,
        "natural-language": 30,
    }
    assert set(found.noise.classes) == {"exact", "both_empty"}
    assert not found.kinds


def test_the_steps_of_a_policy_are_its_pairs(measured: Toy) -> None:
    assert pairs_of(measured.project.policy()) == {"tantivy": (CONTROL, CANDIDATE)}


def test_a_pair_that_was_not_compared_is_refused(measured: Toy) -> None:
    pairs = {"other": (CONTROL, "hash-hybrid")}
    with pytest.raises(EvidenceError, match="harness stage compare --dataset toy"):
        gathered(measured.layout, pairs, sides(measured.layout, ARMS), None)


def test_a_pair_the_other_way_round_was_not_compared(project: Toy) -> None:
    pairs = {"back": (CANDIDATE, CONTROL)}
    with pytest.raises(EvidenceError, match=r"does not speak of .*tantivy\.again\.parquet"):
        gathered(project.layout, pairs, sides(project.layout, ARMS), None)
