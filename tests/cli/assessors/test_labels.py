"""``harness labels``: a machine's labels become evidence, and never judgements."""

from __future__ import annotations

import pytest

from harness.corpus import labels
from harness.corpus.labels import Label
from harness.corpus.prepared import Prepared
from tests.cli.conftest import Harness
from tests.make.toy import GATES, HEAD, STEP, Toy

pytestmark = pytest.mark.slow
GATE = """
[[step.gate]]
name = "The machine judges as people do"
rule = "judge_trusted"
judge = "grader"
weights = "quadratic"
min_kappa = 0.4
min_queries = 10
"""


def write(project: Toy, *, opposite: bool = False) -> None:
    rows = Prepared.open(project.layout.data).qrels().rows()
    found = [
        Label(
            query_id=query_id, doc_id=doc_id, grade=2 - grade if opposite else grade,
            kind="machine", by="grader", model="toy-1",
        )
        for query_id, doc_id, grade in rows
    ]  # fmt: skip
    labels.write(project.root / "machine.jsonl", found)


def test_a_policy_uses_a_machine_that_agrees_and_no_other(project: Toy, harness: Harness) -> None:
    project.policy(HEAD + STEP + GATES + GATE)
    open_ = harness("gate")
    assert open_.code == 3, open_
    assert "labels of grader were not taken in" in open_.out
    qrels = (project.layout.data / "qrels.trec").read_bytes()
    write(project)
    said = harness("labels", "machine.jsonl", "--dataset", "toy")
    assert said.code == 0, said
    assert "grader: took in " in said.out
    assert harness("gate").code == 0
    assert harness("verify").code == 0
    assert (project.layout.data / "qrels.trec").read_bytes() == qrels
    write(project, opposite=True)
    assert harness("labels", "machine.jsonl", "--dataset", "toy").code == 0
    again = harness("gate")
    assert again.code == 3
    assert "its labels are not used" in again.out


def test_labels_that_were_changed_after_the_decision_are_found(
    project: Toy, harness: Harness
) -> None:
    project.policy(HEAD + STEP + GATES + GATE)
    write(project)
    harness("labels", "machine.jsonl", "--dataset", "toy")
    assert harness("gate").code == 0
    kept = project.layout.root / "labels" / "grader.jsonl"
    kept.write_text(kept.read_text().replace('"grade": 2', '"grade": 0'))
    assert "grader.jsonl" in harness("verify").error


def test_what_is_not_a_machines_is_refused(project: Toy, harness: Harness) -> None:
    write(project)
    path = project.root / "machine.jsonl"
    path.write_text(path.read_text().replace('"machine"', '"person"'))
    said = harness("labels", "machine.jsonl", "--dataset", "toy").error
    assert "grader is a person, and labels of a machine are read here" in said
    path.write_text("q00 0 d00 1\n")
    assert harness("labels", "machine.jsonl", "--dataset", "toy").error
    path.write_text("{\n")
    assert "machine.jsonl:1: it is not JSON" in harness("labels", "machine.jsonl").error
