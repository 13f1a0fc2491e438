"""What clusters of queries cost stands on the page and in the decision."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest

from harness.core.scores import Clustering, Dependence
from harness.policy.model import Premises
from harness.report.decision.decision_json import schema, to_json
from harness.report.page.cards import independence
from tests.make import report_inputs
from tests.report.page.test_trust import known

WORTH = Dependence(40, 25, 6, 1.6)


def test_the_page_says_what_queries_are_worth() -> None:
    report = replace(report_inputs.report(), dependence={"tantivy": {"nDCG@10": WORTH}})
    says = "40 queries in 25 clusters (largest 6): design effect 1.60, effective sample size 25."
    assert says in independence(report, "tantivy")
    assert "clusters" not in independence(report, "hybrid")


def test_queries_that_stand_alone_need_no_word() -> None:
    alone = Dependence(40, 40, 1, 1.0)
    report = replace(report_inputs.report(), dependence={"tantivy": {"nDCG@10": alone}})
    assert "clusters" not in independence(report, "tantivy")


def test_the_decision_has_the_same_for_machines() -> None:
    report = replace(report_inputs.report(), dependence={"tantivy": {"nDCG@10": WORTH}})
    written = to_json([report])
    jsonschema.validate(written, schema())
    found = {one["name"]: one["dependence"] for one in written["datasets"][0]["comparisons"]}
    assert found["tantivy"]["nDCG@10"] == {
        "queries": 40, "clusters": 25, "largest": 6, "design_effect": 1.6, "effective": 25,
    }  # fmt: skip
    assert found["hybrid"] == {}
    assert written["datasets"][0]["clusters"] == {
        "how": "near-duplicates", "reason": "", "parted": 0,
    }  # fmt: skip


def test_near_duplicates_that_intents_part_are_counted_on_the_page() -> None:
    plain = report_inputs.report()
    parted = {name: replace(one, parted=frozenset("abc")) for name, one in plain.evidence.items()}
    report = replace(plain, evidence=parted)
    says = "3 queries have nearly the words of another; the dataset declares another intent"
    assert says in independence(report, "tantivy")
    assert to_json([report])["datasets"][0]["clusters"]["parted"] == 3
    assert "nearly the words" not in independence(plain, "tantivy")


@pytest.mark.parametrize(("share", "most"), [(0.0, 6), (0.1, 6), (0.2, 8)])
def test_the_page_says_how_large_an_intent_may_be(tmp_path: Path, share: float, most: int) -> None:
    trust = known(tmp_path)
    rules = replace(trust.policy.rules, largest_cluster=share)
    trust = replace(trust, policy=replace(trust.policy, rules=rules))
    worth = {"tantivy": {"nDCG@10": WORTH}}
    report = replace(report_inputs.report(), trust=trust, dependence=worth)
    says = f"no intent has more than {most} of these 40 queries ({most / 40:.2%}), seen or not."
    assert says in independence(report, "tantivy")


@pytest.mark.parametrize(
    ("how", "says"),
    [("none", "All queries are taken"), ("given", "Queries without an intent are taken")],
)
def test_a_policy_that_takes_queries_for_independent_is_named(
    tmp_path: Path, how: Clustering, says: str
) -> None:
    trust = known(tmp_path)
    policy = replace(trust.policy, clusters=how, premises=Premises(needs="one a session was drawn"))
    report = replace(report_inputs.report(), trust=replace(trust, policy=policy))
    shown = independence(report, "tantivy")
    assert f"{says} as independent: one a session was drawn." in shown
    written = to_json([report])["datasets"][0]["clusters"]
    assert written == {"how": how, "reason": "one a session was drawn", "parted": 0}
