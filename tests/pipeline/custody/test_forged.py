"""A decision that somebody wrote, with receipts that fit it: verification derives it again."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from harness.core import digest
from harness.core.errors import BadFile, EvidenceError
from harness.core.files import write_json
from harness.core.gate import Outcome
from harness.corpus.clusters import CLUSTERS
from harness.corpus.runs import read_run, read_scores, write_scores
from harness.pipeline import verify as stage
from harness.pipeline.verify import verify
from tests.make.forging import forge, promoted, replace_in, restamp
from tests.make.toy import GATES, HEAD, RACED, STEP, Toy

pytestmark = pytest.mark.slow

WIDE = GATES.replace("margin = 0.1", "margin = 0.2")
HARD = HEAD + STEP + WIDE.replace("floor = 0.6", "floor = 0.995") + RACED
Spoil = Callable[[Toy], object]


@pytest.fixture(scope="module")
def decided(measured: Toy, tmp_path_factory: pytest.TempPathFactory) -> Toy:
    """Decide by a bound that the candidate misses."""
    made = measured.copied(tmp_path_factory.mktemp("forged") / "project")
    made.policy(HARD)
    assert made.decide().outcome is Outcome.HOLD
    return made


@pytest.fixture
def held(decided: Toy, tmp_path: Path) -> Toy:
    return decided.copied(tmp_path / "held")


def finding(about: dict[str, Any], gate: str) -> dict[str, Any]:
    """Give what a decision says of one gate, to be changed."""
    (step,) = about["steps"]
    found: dict[str, Any] = next(one for one in step["findings"] if one["gate"] == gate)
    return found


def test_what_was_decided_is_derived_again(held: Toy) -> None:
    said = {one.what: one.said for one in verify(held.layout)}
    assert said["derived again"].endswith("values by query, 6 findings")
    stated = said["taken as stated"]
    assert stated.startswith("what the engines answered, the race's raw times, when they were run")
    assert "fts5 20" in stated
    assert "--requery asks the engines again; a signature says who stands for it" in stated
    assert said["counted twice"] == "492 values by ir-measures"
    assert verify(held.layout, deep=False)[-2].said == "nothing (--no-deep)"


def scores(project: Toy) -> None:
    """Raise what the candidate scored for one query, and decide by that."""
    found = read_scores(project.layout.per_query, ["arm"])
    old = found["tantivy",]["nDCG@10"]
    found["tantivy",]["nDCG@10"] = replace(old, values=np.minimum(old.values + 0.01, 1.0))
    write_scores(project.layout.per_query, ["arm"], found)
    restamp(project.layout)
    project.compare_again()
    project.decide()


def classes(project: Toy) -> None:
    path = project.layout.classes
    table = pq.read_table(path)
    names = ["exact" for _ in table["class"].to_pylist()]
    pq.write_table(table.set_column(3, "class", [names]), path)
    restamp(project.layout)
    project.decide()


def means(project: Toy) -> None:
    found = json.loads(project.layout.scores.read_text())
    found["tantivy"]["RR@10"]["mean"] = 0.99
    write_json(project.layout.scores, found)
    restamp(project.layout)
    project.decide()


def judgements(project: Toy) -> None:
    """Change a grade, and everything that names the judgements by digest."""
    data = project.layout.data
    replace_in(data / "qrels.trec", " d00 0", " d00 1")
    restamp(project.layout)


def documents(project: Toy) -> None:
    """Change a document that no number rests on."""
    replace_in(project.layout.data / "corpus.jsonl", '"title": "', '"title": "x')
    restamp(project.layout)


def clusters(project: Toy) -> None:
    """Take two queries that are nothing alike for one."""
    found = json.loads((project.layout.data / CLUSTERS).read_text())
    found["near_duplicates"].append(["q01", "q02"])
    write_json(project.layout.data / CLUSTERS, found)
    restamp(project.layout)
    project.compare_again()
    project.decide()


def hidden(project: Toy) -> None:
    """Say of a near duplicate that an intent parts it, as if it were not so; and decide by that."""
    path = project.layout.data / CLUSTERS
    found = json.loads(path.read_text())
    write_json(path, {**found, "parted": [*found["parted"], "q01"]})
    restamp(project.layout)
    project.decide()


def independent(project: Toy) -> None:
    """Say that no query is like another, so that intervals are narrower, and decide by that."""
    path = project.layout.data / "clusters.json"
    found = json.loads(path.read_text())
    first, second, *_ = read_run(project.layout.run("fts5")).query_ids
    write_json(path, {**found, "near_duplicates": [[first, second]]})
    project.judge_again(timed=True)
    project.decide()


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (hidden, r"clusters\.json: is not what the queries give"),
        (independent, r"clusters\.json: is not what the queries give"),
        (scores, r"per_query\.parquet: tantivy\.nDCG@10\.q\d+: stored 0\.\d+, derived"),
        (classes, r"classes\.parquet: fts5~\w+\.q\d+: stored \"exact\", derived \""),
        (means, r"scores\.json: tantivy\.RR@10\.mean: stored 0\.99, derived 0\.\d+"),
        (judgements, r"qrels\.trec: is not what .*manifest\.json says"),
        (clusters, r"clusters\.json: is not what the queries give"),
        (documents, r"corpus\.jsonl: is not what .*manifest\.json says"),
    ],
)
def test_evidence_between_the_raw_and_the_decided_is_derived_again(
    held: Toy, spoil: Spoil, says: str
) -> None:
    spoil(held)
    with pytest.raises(EvidenceError, match=says):
        verify(held.layout)


def ratio(about: dict[str, Any]) -> None:
    about["latency"]["ratios"]["tantivy"]["p50"]["value"] *= 0.5


def fast(about: dict[str, Any]) -> None:
    finding(about, "Speed")["estimate"]["value"] *= 0.5


def surer(about: dict[str, Any]) -> None:
    about["provenance"]["settings"]["score"]["confidence"] = 0.9


def dropped(about: dict[str, Any]) -> None:
    (step,) = about["steps"]
    step["findings"] = [one for one in step["findings"] if one["gate"] != "Overlap"]
    step.update(verdict="pass", untimed_verdict="pass", outcome="promote", blocking=[])


def budget(about: dict[str, Any]) -> None:
    about["trust"]["alpha"]["allowed"] = 0.0001


@pytest.mark.parametrize(
    ("edit", "says"),
    [
        (ratio, r"latency\.ratios\.tantivy\.p50\.value: stored .*, derived"),
        (fast, r"findings\.Speed\.estimate\.value: stored .*, derived"),
        (surer, r"scores\.json: .*: stored .*, derived"),
        (dropped, r"findings\.Order\.gate: stored \"Order\", derived \"Overlap\""),
        (budget, r"trust\.alpha\.allowed: stored 0\.0001, derived 0\.25"),
    ],
)
def test_any_value_of_the_decision_is_derived_again(
    held: Toy, edit: Callable[[dict[str, Any]], None], says: str
) -> None:
    forge(held.layout, edit)
    with pytest.raises(EvidenceError, match=says):
        verify(held.layout)


def test_a_report_of_tests_that_says_otherwise_is_refused(held: Toy) -> None:
    replace_in(held.layout.junit, "<failure", "<skipped")
    restamp(held.layout)
    with pytest.raises(EvidenceError, match=r"junit\.xml: is not what the decision beside it"):
        verify(held.layout)


def test_a_decision_that_does_not_state_its_settings_is_refused(held: Toy) -> None:
    forge(held.layout, lambda about: about["provenance"]["settings"].pop("score"))
    with pytest.raises(BadFile, match="does not state its settings"):
        verify(held.layout)


@pytest.mark.parametrize("kind", ["corpus", "queries", "qrels"])
def test_a_decision_on_other_data_is_refused(held: Toy, kind: str) -> None:
    forge(held.layout, lambda about: about["provenance"]["sha256"].update({kind: "0" * 64}))
    with pytest.raises(EvidenceError, match=rf"decision\.json: was made from other {kind}\."):
        verify(held.layout)


def test_it_is_said_where_the_code_changed_since(
    held: Toy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stage, "code_sha256", lambda: digest.of_bytes(b"other code"))
    said = {one.what: one.said for one in verify(held.layout)}
    assert said["code"] == "changed since; every value is still the same"
    forge(held.layout, promoted)
    with pytest.raises(EvidenceError, match="The code changed since it was decided"):
        verify(held.layout)
