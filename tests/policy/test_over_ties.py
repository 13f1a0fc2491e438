"""A gate over what its evidence leaves open."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.core.gate import OF_VERDICT, Cause, Verdict
from harness.policy.decision import judge_over
from harness.policy.load import load_policy
from harness.policy.model import Gate
from tests.make import gate_inputs

HEAD = """\
[policy]
name = "toy"
version = 1
seed = 3
confidence = 0.95
resamples = 1000
power = 0.8
evidence_days = 7
attempts = 1
largest_cluster = 0.001

[policy.premises]
drawn = "made so"
needs = "made so"
judges = "made so"
starts = "made so"
slowest = "made so"
[[step]]
name = "step"
control = "old"
candidate = "new"
taken = false
[[step.gate]]
name = "Quality"
measure = "nDCG@10"
margin = 0.05
min_queries = 20
"""


def gate(folder: Path, rule: str) -> Gate:
    (folder / "policy.toml").write_text(f'{HEAD}rule = "{rule}"\n')
    return load_policy(folder / "policy.toml").steps[0].gates[0]


@pytest.mark.parametrize(
    ("rule", "now", "ends", "said"),
    [
        ("non_inferior", 0.0, (-0.01, 0.02), Verdict.PASS),
        ("non_inferior", 0.0, (-0.2, 0.02), Verdict.INCONCLUSIVE),
        ("non_inferior", -0.2, (-0.3, -0.1), Verdict.FAIL),
        ("non_inferior", -0.2, (-0.3, 0.1), Verdict.INCONCLUSIVE),
        ("equivalent", 0.0, (-0.01, 0.01), Verdict.PASS),
        ("equivalent", 0.2, (-0.3, 0.3), Verdict.INCONCLUSIVE),
        ("equivalent", 0.2, (0.1, 0.3), Verdict.FAIL),
        ("equivalent", 0.0, (-0.01, 0.2), Verdict.INCONCLUSIVE),
    ],
)
def test_one_answer_at_both_ends_or_none(
    tmp_path: Path, rule: str, now: float, ends: tuple[float, float], said: Verdict
) -> None:
    control = gate_inputs.levels(100)
    middle, *others = (
        gate_inputs.scored(control, gate_inputs.shifted(control, by, 0.02)) for by in (now, *ends)
    )
    finding = judge_over(gate(tmp_path, rule), middle, others, gate_inputs.RULES)
    alone = gate(tmp_path, rule).judge(middle, gate_inputs.RULES)
    assert finding.verdict is said
    turned = said is Verdict.INCONCLUSIVE and alone.verdict is not said
    assert finding.cause is (Cause.TIES if turned else OF_VERDICT[said])
    assert alone.estimate
    assert finding.estimate
    assert finding.estimate.value == alone.estimate.value
    assert finding.estimate.low < alone.estimate.low < alone.estimate.high < finding.estimate.high
    assert "at the ends of what ties leave open" in finding.reason
    assert bool(finding.remedy) is (said is Verdict.INCONCLUSIVE)


def test_where_nothing_is_open_nothing_changes(tmp_path: Path) -> None:
    control = gate_inputs.levels(100)
    same = gate_inputs.scored(control, gate_inputs.shifted(control, 0.0, 0.02))
    quality = gate(tmp_path, "non_inferior")
    alone = quality.judge(same, gate_inputs.RULES)
    assert judge_over(quality, same, (), gate_inputs.RULES) == alone
    assert judge_over(quality, same, (same, same), gate_inputs.RULES) == alone
