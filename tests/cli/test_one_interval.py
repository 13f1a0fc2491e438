"""A difference has one interval: in its gate, in every table, and in each file of a decision."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path

import pytest

from harness.core.errors import EvidenceError
from harness.pipeline.report import report
from tests.cli.conftest import Harness
from tests.make.toy import GATES, HEAD, NAME, STEP, Toy

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("undrawn")]
OTHERWISE = (
    HEAD
    .replace("seed = 5", "seed = 6")
    .replace("confidence = 0.5", "confidence = 0.8")
    .replace("1000", "2000")
)
"""The inference of a policy that is not that of ``score`` in ``params.yaml``."""
WITH_INTERVAL = re.compile(r"([+-]?\d+\.\d+) \[([+-]?\d+\.\d+), ([+-]?\d+\.\d+)\]")


def intervals(text: str, value: str) -> set[tuple[float, float]]:
    """Give every interval that stands behind a value of a page, whatever signs are printed."""
    plain = html.unescape(re.sub(r"<[^>]+>", " ", re.sub(r"<script.*?</script>", "", text)))
    words = re.sub(r"\s+", " ", plain.replace("\N{MINUS SIGN}", "-").replace("\\", ""))
    found = WITH_INTERVAL.findall(words)
    assert found, "no interval was found, so none is compared"
    return {
        (float(low), float(high))
        for shown, low, high in found
        if shown.removeprefix("+") == value.removeprefix("+")
    }


def test_a_difference_has_one_interval_on_each_page(project: Toy) -> None:
    """The gate had the policy's, and all else on the page that of params.yaml."""
    project.untimed()
    project.policy(OTHERWISE + STEP + GATES)
    project.judge_again()
    (gated,) = (one for one in project.decide().findings if one.gate == "Quality")
    assert gated.estimate
    value = f"{gated.estimate.value:+.4f}"
    ends = {(round(gated.estimate.low, 4), round(gated.estimate.high, 4))}
    to = project.root / "reports"
    subjects = {project.layout: project.project.subject(NAME)}
    written = report(subjects, to, to / "receipt.json")
    for page in (written.page, written.markdown):
        assert intervals(page.read_text(), value) == ends, page
    apart = json.loads(project.layout.differences.read_text())["fts5~tantivy"]["nDCG@10"]
    assert (round(apart["low"], 4), round(apart["high"], 4)) in ends


def test_intervals_of_another_policy_decide_nothing(project: Toy, harness: Harness) -> None:
    project.untimed()
    project.policy(OTHERWISE + STEP + GATES)
    with pytest.raises(EvidenceError, match="not those of the policy as it is now"):
        project.decide()
    assert not project.layout.decision.exists()
    assert harness("stage", "compare", "--dataset", NAME).code == 0
    project.decide()


def test_a_run_draws_as_its_policy_does(project: Toy, harness: Harness) -> None:
    path = project.root / "policy" / "other.toml"
    path.write_text(OTHERWISE + STEP + GATES)
    words = ("run", "--dataset", NAME, "--arms", "fts5,tantivy", "--control", "fts5")
    assert harness(*words, "--policy", path, "--out", "out").code == 0
    out: Path = project.root / "out"
    (step,) = json.loads((out / "decision.json").read_text())["datasets"][0]["steps"]
    (gated,) = (one["estimate"] for one in step["findings"] if one["gate"] == "Quality")
    for name in ("index.html", "report.md"):
        ends = intervals((out / name).read_text(), f"{gated['value']:+.4f}")
        assert ends == {(round(gated["low"], 4), round(gated["high"], 4))}, name
    assert harness("verify", "--from", "out").code == 0
