"""Shipped policies, and what holds a decision to its policy."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, get_args, get_origin

import pytest
from annotated_types import Le, Lt
from pydantic import BaseModel

from harness.core.errors import EvidenceError
from harness.core.gate import StepDecision
from harness.core.scores import Estimate
from harness.gates.base import rules
from harness.gates.base.rules import GateSettings
from harness.pipeline.params import Params
from harness.policy.load import load_policy
from harness.policy.model import Demands, Header, Policy, StepTable
from harness.policy.plan import MOVED
from harness.shadow.alarms import Bounds
from harness.shadow.settings import Settings
from harness.stats.bounded import Span
from harness.stats.sample_size import Target, min_queries, planned_equal
from harness_engines import registry as arms
from tests.make.held import held_to
from tests.make.toy import Toy
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


@pytest.mark.slow
def test_what_a_project_decides_is_held(project: Toy) -> None:
    policy, decision = project.project.policy(), project.decide()
    held_to(policy, [decision])
    for spoilt in (
        replace(decision, findings=decision.findings[1:]),
        replace(decision, control="x"),
        _passing(decision, Estimate(-0.25, -0.3, -0.2, 41)),
        _passing(decision, Estimate(0.05, 0.0, 0.1, 19)),
    ):
        with pytest.raises(EvidenceError):
            held_to(policy, [spoilt])


def _passing(decision: StepDecision, estimate: Estimate) -> StepDecision:
    """Let the gate on quality pass by another interval."""
    return replace(
        decision,
        findings=tuple(
            replace(one, estimate=estimate) if one.gate == "Quality" else one
            for one in decision.findings
        ),
    )


def test_every_rule_with_a_limit_says_on_which_side_it_passes() -> None:
    settings = {name: rules.load(name).settings for name in rules.names()}
    limited = {name for name, of in settings.items() if {"limit", "bounded_by"} & written(of)}
    silent = {name for name in limited if "passes" not in written(settings[name])}
    assert silent == set()
    assert len(limited) > 10


def written(settings: type[GateSettings]) -> set[str]:
    """Name what a rule writes itself, or takes from what rules of its kind share."""
    own = [of for of in settings.__mro__ if issubclass(of, GateSettings) and of is not GateSettings]
    return {name for of in own for name in vars(of)}


LABELS = {"seed", "version", "format"}
"""Numbers that only name something."""


def numbers(model: type[BaseModel], within: str = "") -> Iterator[tuple[str, bool]]:
    """Yield each number of a model and its tables, and whether it is bounded above."""
    for name, field in model.model_fields.items():
        place = f"{within}{name}"
        for kind, marks in kinds(field.annotation, field.metadata):
            if isinstance(kind, type) and issubclass(kind, BaseModel):
                yield from numbers(kind, f"{place}.")
            elif kind in {int, float} and name not in LABELS:
                yield place, any(isinstance(mark, Le | Lt) for mark in marks)


def kinds(annotation: Any, marks: list[Any]) -> Iterator[tuple[Any, list[Any]]]:  # noqa: ANN401  a type
    """Take unions, tuples and annotations apart."""
    if get_origin(annotation) is Annotated:
        inner, *more = get_args(annotation)
        more = [one for mark in more for one in getattr(mark, "metadata", [mark])]
        yield from kinds(inner, [*marks, *more])
    elif get_args(annotation) or isinstance(annotation, UnionType):
        for one in get_args(annotation):
            yield from kinds(one, marks)
    else:
        yield annotation, marks


MODELS: dict[str, Any] = {
    "policy": Header,
    "step": StepTable,
    "demands": Demands,
    "params": Params,
    "shadow": Settings,
    "watch": Bounds,
    **{name: rules.load(name).settings for name in rules.names()},
}


@pytest.mark.parametrize("name", MODELS)
def test_every_number_is_bounded_above(name: str) -> None:
    assert [place for place, bounded in numbers(MODELS[name]) if not bounded] == []


def test_a_number_without_an_end_is_seen() -> None:
    class Open(BaseModel):
        width: float
        depth: Annotated[int, Le(5)] | None = None

    assert dict(numbers(Open)) == {"width": False, "depth": True}
