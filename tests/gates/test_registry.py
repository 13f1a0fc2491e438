"""The folder is the registry, and no rule has a bound of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from pydantic import ValidationError

import harness.gates
from harness.core.errors import UnknownName
from harness.core.gate import Verdict
from harness.core.scores import Estimate
from harness.gates.base import rules
from harness.gates.base.differences import Looks
from harness.gates.base.rules import GateSettings, Margin, MinQueries, Rules, above, below, within


def test_every_module_of_the_folder_is_a_rule() -> None:
    folder = Path(next(iter(harness.gates.__path__)))
    files = {path.stem for path in folder.glob("*.py")} - {"__init__"}
    assert set(rules.names()) == files
    assert len(files) >= 10


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
