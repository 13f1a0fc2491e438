"""What a forger does, and what tests of planted faults share."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from harness.core import digest
from harness.core.engine import Answer
from harness.core.files import write_json
from harness.core.gate import Finding, Outcome, StepDecision
from harness.pipeline import experiments
from harness.pipeline.gate import DETERMINISTIC
from harness.pipeline.layout import Layout
from harness.pipeline.replay import replay
from harness.report.decision import without_times
from harness_engines.stacks.text.tantivy import TantivySearcher
from tests.make.toy import CANDIDATE, Toy

Edit = Callable[[dict[str, Any]], object]
"""Changes what ``decision.json`` says of one data set, in place."""


def restamp(layout: Layout) -> None:
    """Write the digests of all receipts anew, the lowest first."""
    runs = sorted(layout.root.glob("runs/*.receipt.json"))
    for receipt in (*runs, layout.score_receipt, layout.compare_receipt, layout.decision_receipt):
        names = json.loads(receipt.read_text())
        write_json(receipt, {name: digest.of_file(receipt.parent / name) for name in names})


def chain(layout: Layout, number: int) -> None:
    """Write the log anew from a decision's line on, as if it had said so."""
    path = layout.log
    lines = path.read_text().splitlines()
    log = experiments.read(layout)
    kept = lines[: number - 1]
    for one in log.experiments[number - 1 :]:
        head = digest.of_bytes(kept[-1].encode()) if kept else experiments.FIRST
        said = digest.of_file(layout.decision) if one.number == number else one.decision
        changed = one.model_copy(update={"previous": head, "decision": said})
        kept.append(changed.model_dump_json())
    path.write_text("".join(f"{line}\n" for line in kept))


def forge(layout: Layout, edit: Edit) -> None:
    """Edit a decision, its findings and its summary, and make every digest fit."""
    written = json.loads(layout.decision.read_text())
    (about,) = written["datasets"]
    edit(about)
    outcomes = [step["outcome"] for step in about["steps"]]
    verdicts = {step["verdict"] for step in about["steps"]}
    summary = written["summary"]
    worst = [word for word in ("fail", "inconclusive", "pass") if word in verdicts]
    summary["verdict"] = worst[0]
    summary["outcomes"] = {word: outcomes.count(word) for word in summary["outcomes"]}
    for step, outcome in zip(summary["steps"], outcomes, strict=True):
        step["outcome"] = outcome
    write_json(layout.decision, written)
    steady = without_times(written)["datasets"][0]
    write_json(layout.findings, {key: steady[key] for key in DETERMINISTIC})
    restamp(layout)
    chain(layout, about["record"]["number"])


def promoted(about: dict[str, Any]) -> None:
    """Say PASS at every gate, each by an interval that lies where a PASS has it."""
    for step in about["steps"]:
        step.update(verdict="pass", untimed_verdict="pass", outcome="promote", blocking=[])
        for finding in step["findings"]:
            if finding["verdict"] != "pass":
                finding.update(verdict="pass", cause="kept", settle="")
                if finding["estimate"] and finding["limit"] is not None:
                    good = finding["limit"] + 0.1
                    finding["estimate"].update(value=good, low=good - 0.01, high=good + 0.01)


def replace_in(path: Path, old: str, new: str) -> None:
    """Change one place of a text file."""
    text = path.read_text()
    assert old in text, path
    path.write_text(text.replace(old, new, 1))


Search = Callable[[TantivySearcher, str, int], Answer]
HONEST: Search = TantivySearcher.search


def measure(project: Toy) -> None:
    """Ask the candidate once more, and score and compare."""
    replay(project.layout, CANDIDATE, project.cache, project.params.replay)
    project.judge_again()


def blocking(decision: StepDecision) -> dict[str, Finding]:
    """Return what turned the decision away, by gate; it must have been turned away."""
    assert decision.outcome is not Outcome.PROMOTE
    return {finding.gate: finding for finding in decision.blocking}
