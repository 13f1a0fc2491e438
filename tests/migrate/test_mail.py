"""The migration of message search, all stages on a small made-up mailbox."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from agent_mail.generate import Traffic, generate

from harness.core.engine import Answer
from harness.core.gate import Finding, Outcome, StepDecision, Verdict
from harness.core.records import Scalar
from harness.corpus import prepared
from harness.pipeline import params
from harness.pipeline.layout import Layout
from harness.pipeline.oneshot import RunRequest, oneshot
from harness_engines import registry as arms
from harness_engines.stacks.agent_mail.arm import MailSearcher
from harness_engines.stacks.agent_mail.pipeline.plan import KillSwitch
from tests.make.toy import PARAMS
from tests.source import ROOT

pytestmark = pytest.mark.slow
POLICY = ROOT / "policy" / "mail.toml"
TRAFFIC = Traffic(messages=1_000, seed=3, queries=12)
IDENTIFIERS = "Quality on identifiers"
FILTERS = "Quality with filters"


@pytest.fixture(scope="module")
def mailbox(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make the data set once."""
    folder = tmp_path_factory.mktemp("mailbox") / "data"
    made = generate(TRAFFIC)
    prepared.write(folder, "agent-mail", "test", made.documents, made.queries, made.qrels)
    return folder


def migrate(mailbox: Path, out: Path, until: str) -> tuple[StepDecision, ...]:
    """Judge the policy of mail up to a step; hashed words, weighted otherwise, are the model."""
    root = out / "work" / "build"
    root.mkdir(parents=True)
    (root / "data").symlink_to(mailbox)
    hybrid = out / "mail-hybrid.toml"
    text = arms.path_of("mail-hash").read_text(encoding="utf-8")
    hybrid.write_text(text.replace("subject_weight = 2", "subject_weight = 3"))
    policy = out / "mail.toml"
    bounds = POLICY.read_text(encoding="utf-8")
    policy.write_text(bounds.replace("resamples = 10000", "resamples = 1000 "), encoding="utf-8")
    settings = out / "params.yaml"
    settings.write_text(PARAMS)
    wanted = RunRequest(
        arms=(str(hybrid),) if until == "hybrid" else (),
        runs={},
        control="",
        policy_file=policy,
        by_steps=True,
        until=until,
        timed=False,
        licence="Apache-2.0",
        source="made by a test",
        command="harness run",
    )
    layout = Layout(root, out / "work" / "perf", out / "work" / "cache")
    return oneshot(
        layout, wanted, params.read(settings), out=out, cache=out / "cache", tell=lambda _: None
    )


@pytest.fixture(scope="module")
def honest(
    mailbox: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, tuple[StepDecision, ...]]:
    """Judge the stack as it is, and give the folder and the decisions."""
    out = tmp_path_factory.mktemp("honest")
    return out, migrate(mailbox, out, "hybrid")


def finding(decision: StepDecision, gate: str) -> Finding:
    return next(found for found in decision.findings if found.gate == gate)


@pytest.mark.whole(
    "tests/migrate/test_month.py::test_a_month_with_a_regression_expiry_and_a_way_back"
)
def test_every_step_gets_a_verdict_and_every_slice_a_row(
    honest: tuple[Path, tuple[StepDecision, ...]],
) -> None:
    out, (shadow, tantivy, hybrid) = honest
    assert (shadow.step, tantivy.step, hybrid.step) == ("shadow", "tantivy", "hybrid")
    assert [found.verdict for found in shadow.findings if found.rule == "identity"] == [
        Verdict.PASS
    ]
    for decision in (tantivy, hybrid):
        said = {found.gate: found.verdict for found in decision.findings}
        assert said["Engine identity"] is Verdict.PASS
        assert decision.outcome is Outcome.HOLD
    assert "leave room for a loss that none of them shows" in finding(tantivy, IDENTIFIERS).remedy
    assert finding(hybrid, FILTERS).estimate is not None
    written = json.loads((out / "decision.json").read_text(encoding="utf-8"))["datasets"][0]
    assert {"paraphrase", "identifier", "filter-thread", "hostile", "negative"} < set(
        written["quality"]["slices"]
    )
    page = (out / "index.html").read_text(encoding="utf-8")
    assert "Candidate minus control by slice, nDCG@10" in page
    assert "filter-thread" in page


@pytest.mark.whole(
    "tests/migrate/test_month.py::test_a_month_with_a_regression_expiry_and_a_way_back"
)
def test_a_candidate_that_ignores_filters_is_held(
    mailbox: Path,
    honest: tuple[Path, tuple[StepDecision, ...]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answered = MailSearcher.search_with

    def deaf(self: MailSearcher, text: str, k: int, params: dict[str, Scalar]) -> Answer:
        ignored = self.service.switch is KillSwitch.TANTIVY
        return answered(self, text, k, {} if ignored else params)

    monkeypatch.setattr(MailSearcher, "search_with", deaf)
    _, tantivy = migrate(mailbox, tmp_path, "tantivy")
    assert finding(tantivy, FILTERS).verdict is Verdict.FAIL
    assert finding(honest[1][1], FILTERS).verdict is not Verdict.FAIL
