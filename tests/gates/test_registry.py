"""The folder is the registry, no rule has a bound of its own, and looks are declared."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from pydantic import ValidationError

import harness.gates
from benchmarks.verdict_families import losing
from harness.core.errors import UnknownName
from harness.core.gate import Verdict
from harness.core.scores import Estimate, Scores
from harness.gates.base import rules
from harness.gates.base.differences import Looks
from harness.gates.base.rules import GateSettings, Margin, MinQueries, Rules, above, below, within
from harness.stats import sequential
from harness.stats.bounded import Span, chance_above
from tests.make import gate_inputs
from tests.make.chances import chance


def test_every_module_of_the_folder_is_a_rule() -> None:
    folder = Path(next(iter(harness.gates.__path__)))
    files = {path.stem for path in folder.glob("*.py")} - {"__init__"}
    assert files <= set(rules.names())
    assert len(files) >= 8


@pytest.mark.parametrize("name", rules.names())
def test_a_rule_has_settings_and_a_judge(name: str) -> None:
    rule = rules.load(name)
    assert issubclass(rule.settings, GateSettings)
    assert callable(rule.judge)
    assert rule.settings.__doc__
    assert rule.judge.__doc__


@pytest.mark.parametrize("name", rules.names())
def test_no_number_has_a_default(name: str) -> None:
    for key, field in rules.load(name).settings.model_fields.items():
        assert field.is_required() or field.annotation in {
            str,
            bool,
            str | None,
            type(None),
            tuple[str, ...],
            MinQueries | None,
            Mapping[str, Margin],
            Looks,
        }, key


@pytest.mark.parametrize("name", rules.names())
def test_an_unknown_key_is_refused(name: str) -> None:
    with pytest.raises(ValidationError, match="Extra inputs"):
        rules.load(name).settings.model_validate({"tolerance": 1})


def test_an_unknown_rule_lists_what_there_is() -> None:
    with pytest.raises(UnknownName, match=r"no rule named 'base'; there is .*non_inferior"):
        rules.load("base")


def test_rules_have_no_default() -> None:
    with pytest.raises(TypeError, match="4 required"):
        Rules()  # type: ignore[call-arg]


NAN = float("nan")


@pytest.mark.parametrize(
    ("verdict", "ends"),
    [
        (above, (NAN, 9.0)),
        (above, (NAN, NAN)),
        (below, (-9.0, NAN)),
        (below, (NAN, NAN)),
        (within, (0.0, NAN)),
        (within, (NAN, 0.0)),
    ],
)
def test_nan_at_the_deciding_end_never_passes(
    verdict: Callable[[Estimate, float], Verdict], ends: tuple[float, float]
) -> None:
    assert verdict(Estimate(0.0, *ends, 5), 1.0) is Verdict.INCONCLUSIVE


def test_a_verdict_has_no_truth_value() -> None:
    for verdict in Verdict:
        with pytest.raises(TypeError, match="neither true nor false"):
            bool(verdict)


def test_an_interval_that_touches_the_bound_is_on_neither_side() -> None:
    touching = Estimate(0.5, 0.0, 1.0, 5)
    assert above(touching, 0.0) is Verdict.INCONCLUSIVE
    assert below(touching, 1.0) is Verdict.INCONCLUSIVE
    assert within(Estimate(0.0, -1.0, 0.5, 5), 1.0) is Verdict.INCONCLUSIVE


SETTINGS = {
    "non_inferior": {"measure": "nDCG@10", "margin": 0.02},
    "superior": {"measure": "nDCG@10", "margin": 0.0},
}


@pytest.mark.slow
@pytest.mark.parametrize("rule", SETTINGS)
@pytest.mark.parametrize(("by", "verdict"), [(0.05, Verdict.PASS), (-0.08, Verdict.FAIL)])
def test_the_right_and_the_wrong_side_of_the_bound(rule: str, by: float, verdict: Verdict) -> None:
    control = gate_inputs.levels(800)
    evidence = gate_inputs.scored(control, gate_inputs.shifted(control, by))
    found = gate_inputs.judge(rule, evidence, looks="anytime", **SETTINGS[rule])
    once = gate_inputs.judge(rule, evidence, **SETTINGS[rule])
    assert found.verdict is once.verdict is verdict
    assert found.bound == f"{once.bound}, at every look"
    assert found.estimate is not None
    assert once.estimate is not None
    assert found.estimate.low < once.estimate.low
    assert found.estimate.high > once.estimate.high
    assert found.p_value is not None
    assert (found.p_value <= 0.025) is (verdict is Verdict.PASS)


def test_near_the_bound_it_says_how_many_queries_would_settle_it() -> None:
    control = gate_inputs.levels(200)
    evidence = gate_inputs.scored(control, gate_inputs.shifted(control, 0.0))
    found = gate_inputs.judge("non_inferior", evidence, looks="anytime", **SETTINGS["non_inferior"])
    assert found.verdict is Verdict.INCONCLUSIVE
    assert "they may be added in any number of steps" in found.remedy
    count = int(found.remedy.split()[1])
    for queries, verdict in ((count - 20, Verdict.INCONCLUSIVE), (count + 20, Verdict.PASS)):
        control = gate_inputs.levels(queries)
        more = gate_inputs.scored(control, gate_inputs.shifted(control, 0.0))
        said = gate_inputs.judge("non_inferior", more, looks="anytime", **SETTINGS["non_inferior"])
        assert said.verdict is verdict


def test_a_lost_query_counts_as_the_worst() -> None:
    control = gate_inputs.levels(800)
    evidence = gate_inputs.scored(control, gate_inputs.shifted(control, 0.0))
    asked = {"looks": "anytime", **SETTINGS["non_inferior"]}
    assert gate_inputs.judge("non_inferior", evidence, **asked).verdict is Verdict.PASS
    side = evidence.candidate
    kept = side.scores["nDCG@10"]
    gone = Scores("nDCG@10", kept.query_ids[40:], kept.values[40:], {"failed": kept.query_ids[:40]})
    lost = replace(evidence, candidate=replace(side, scores={"nDCG@10": gone}))
    found = gate_inputs.judge("non_inferior", lost, **asked)
    assert found.verdict is Verdict.INCONCLUSIVE
    assert "with these counted as -1 each -0.05" in found.reason


def test_queries_of_one_cluster_count_once() -> None:
    control = gate_inputs.levels(1_200)
    noise = np.repeat(np.random.default_rng(5).normal(0, 0.05, 300), 4)
    evidence = gate_inputs.scored(control, control + noise - noise.mean())
    asked = {"looks": "anytime", **SETTINGS["non_inferior"]}
    groups = {q: f"like {at // 4}" for at, q in enumerate(gate_inputs.ids(1_200))}
    alone, together = (
        gate_inputs.judge("non_inferior", replace(evidence, clusters=clusters), **asked).estimate
        for clusters in ({}, groups)
    )
    assert alone is not None
    assert together is not None
    assert together.low < alone.low


@pytest.mark.slow
def test_queries_added_until_it_passes_promote_falsely_as_rarely_as_it_says() -> None:
    """A look each 25 queries at a mean on the margin; a single one errs in 2.5 % of the cases."""
    span = Span(-1.0, 1.0)
    values = losing(np.random.default_rng(3), (1_000, 300), 0.4)
    once, ever = np.zeros(300, bool), np.zeros(300, bool)
    for size in range(100, 1_001, 25):
        once |= chance_above(values[:size], -0.02, span=span, clusters=None) < 0.025
        each = sequential.evalues_each(values[:size], span=span, confidence=0.95, clusters=None)
        ever |= np.array([one.low > -0.02 for one in each])
    assert once.mean() > 0.035, "the fault that e-values are against is not there"
    assert ever.mean() <= chance(0.025, 300)
    sure = sequential.evalues_each(values[:, :20] / 4, span=span, confidence=0.95, clusters=None)
    assert all(one.low > -0.1 for one in sure)


def test_the_gamblers_are_those_of_the_statistics(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sequential, "EVALUE_SHARES", np.array([1e-9]))
    control = gate_inputs.levels(800)
    evidence = gate_inputs.scored(control, gate_inputs.shifted(control, 0.05))
    found = gate_inputs.judge("non_inferior", evidence, looks="anytime", **SETTINGS["non_inferior"])
    assert found.verdict is Verdict.INCONCLUSIVE
