"""Both means stand side by side, of arms and of comparisons."""

from __future__ import annotations

from dataclasses import replace

from harness.core.scores import Estimate
from harness.report.page.tables import traffic
from harness.stats.interval import TrafficMean
from tests.make import report_inputs


def test_arms_and_comparisons_have_both_means() -> None:
    report = report_inputs.report()
    evidence = report.evidence["tantivy"]
    key = f"{evidence.control.arm}~{evidence.candidate.arm}"
    found = {
        evidence.control.arm: TrafficMean(Estimate(0.25, 0.2, 0.3, 40), 0.62),
        key: TrafficMean(Estimate(-0.05, -0.1, 0.0, 40), 0.5),
    }
    table = traffic(replace(report, traffic=found))
    arm, difference = table.rows
    assert arm[0].text == evidence.control.arm
    assert arm[1].text == "0.2500"
    assert (arm[2].text, difference[2].text) == ("62.0 %", "50.0 %")
    assert arm[3].text != arm[1].text
    assert difference[0].text == f"{evidence.control.arm} → {evidence.candidate.arm}"
    assert difference[1].text.endswith("0.0500")
    assert traffic(report).rows == ()
