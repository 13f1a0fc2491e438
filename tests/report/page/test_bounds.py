"""The bounds of a step's gates on the rows of a forest plot (bounds, forests)."""

from __future__ import annotations

import re
from dataclasses import replace
from types import MappingProxyType

from harness.core.scores import Estimate
from harness.gates import equivalent
from harness.policy.load import load_policy
from harness.report.inputs import ReportInput, Trust
from harness.report.page import forest
from harness.report.page.forest import Group, of_means, of_ratios, of_slices
from harness.report.rounding import MINUS
from tests.make.report_inputs import report
from tests.source import ROOT

STEP = "hybrid"
SMALL = Estimate(0.01, 0.0, 0.02, 100)


def shipped(step: str = STEP) -> ReportInput:
    """Give a report of a step of the policy that is shipped."""
    made = report()
    policy = load_policy(ROOT / "policy" / "migration.toml")
    evidence = {step: next(iter(made.evidence.values()))}
    return replace(made, trust=Trust(policy), evidence=evidence)


def test_every_gate_of_a_step_gives_its_row_a_bound() -> None:
    assert of_means(shipped(), STEP) == {"RR@10": (-0.02,)}
    assert of_slices(shipped(), STEP) == {"natural-language": (0.03,), "identifier": (-0.03,)}
    assert of_ratios(shipped("tantivy"), "tantivy") == {"p50": (2.0,), "p95": (3.0,)}


def test_what_no_gate_looks_at_has_no_bound() -> None:
    for of in (of_means, of_slices, of_ratios):
        assert of(shipped(), "another") == {}
        assert of(report(), STEP) == {}


def test_a_bound_on_both_sides_is_two() -> None:
    made = shipped()
    assert made.trust
    step = next(one for one in made.trust.policy.steps if one.name == STEP)
    gate = replace(
        step.gates[0],
        settings=equivalent.Settings.model_validate({
            "measure": "RR@10",
            "margin": 0.05,
            "min_queries": 2,
        }),
    )
    policy = replace(made.trust.policy, steps=(replace(step, gates=(gate,)),))
    both = replace(made, trust=replace(made.trust, policy=policy))
    assert of_means(both, STEP) == {"RR@10": (-0.05, 0.05)}


def test_a_bound_beyond_every_interval_is_drawn_on_the_plot() -> None:
    bounds = MappingProxyType({"nDCG@10": (-0.3,)})
    plain = forest.differences("x", "about", [Group("m", {"nDCG@10": SMALL})])
    drawn = forest.differences("x", "about", [Group("m", {"nDCG@10": SMALL}, bounds=bounds)])
    assert plain
    assert drawn
    ticks = [re.findall(r">([^<>]*0\.2[^<>]*)</text>", svg) for svg in (drawn, plain)]
    assert any(tick.startswith(MINUS) for tick in ticks[0])
    assert not any(tick.startswith(MINUS) for tick in ticks[1])
