"""Other code than ours counts again, and a fault of ours is not believed."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from harness import agreement
from harness.agreement import Pair, Partial, jaccard
from harness.core.errors import EvidenceError
from harness.core.scores import Estimate
from harness.gates.base import differences
from harness.measures import kernels
from harness.stages.custody.recount import _same_difference, recount
from harness.stages.custody.rederive import subject_of
from harness.stages.gate import read_decision
from tests.make import gate_inputs
from tests.make.toy import Toy

pytestmark = pytest.mark.slow

Fault = Callable[[pytest.MonkeyPatch], object]


def counted(project: Toy) -> tuple[int, ...]:
    layout = project.layout
    (about,) = json.loads(layout.decision.read_text())["datasets"]
    subject = subject_of(layout, about, project.root / "policy" / "toy.toml", 1)
    return tuple(recount(layout, subject, read_decision(layout)[0]))


def test_all_of_it_is_counted(project: Toy) -> None:
    project.decide()
    values, comparisons, gates = counted(project)
    assert values == 3 * 4 * 41
    assert comparisons == 2 * 41
    assert gates == 1


def test_a_kernel_that_is_wrong(project: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    honest = kernels.evaluate
    monkeypatch.setattr(kernels, "evaluate", lambda *given: np.minimum(honest(*given) + 1e-6, 1))
    project.judge_again(timed=True)
    project.decide()
    with pytest.raises(EvidenceError, match="but ir-measures says"):
        counted(project)


def test_an_overlap_that_is_wrong(project: Toy, monkeypatch: pytest.MonkeyPatch) -> None:

    def more(pair: Pair, depth: int) -> Partial:
        found = jaccard(pair, depth)
        return Partial(found.defined, np.minimum(found.values + 0.01, 1.0))

    monkeypatch.setattr(agreement, "jaccard", more)
    project.judge_again(timed=True)
    project.decide()
    with pytest.raises(EvidenceError, match=r"Jaccard@10 of .* but the check gives"):
        counted(project)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda found: replace(found, low=found.value + 1e-6),
        lambda found: Estimate(found.value + 0.001, found.low, found.high + 0.001, found.n),
    ],
)
def test_the_number_of_a_gate_that_is_wrong(
    project: Toy, monkeypatch: pytest.MonkeyPatch, wrong: Callable[[Estimate], Estimate]
) -> None:
    honest = differences.Comparison.estimate
    monkeypatch.setattr(differences.Comparison, "estimate", lambda *given: wrong(honest(*given)))
    project.decide()
    with pytest.raises(EvidenceError, match=r"'Quality' of step tantivy: says .* have a mean"):
        counted(project)


def test_the_number_of_a_slice_is_held_against_its_own_queries() -> None:
    control, candidate = {"a": 0.5, "b": 0.5, "c": 0.5}, {"a": 0.5, "b": 0.2, "c": 0.8}
    finding = gate_inputs.judge("identity", gate_inputs.evidence(9))
    inside = frozenset({"a", "b"})
    for mean, of in ((-0.15, inside), (0.0, None)):
        said = Estimate(mean, mean - 0.1, mean + 0.1, 3)
        _same_difference("step", finding, said, (control, candidate), of)
        other = None if of else inside
        with pytest.raises(EvidenceError, match="have a mean of"):
            _same_difference("step", finding, said, (control, candidate), other)
