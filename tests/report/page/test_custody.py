"""How evidence was kept, in words for the first screen and in values for machines."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.policy.looks import Looks
from harness.report.decision.files import to_markdown
from harness.report.decision.model import EvidencePart, RecordPart
from harness.report.page.custody import (
    Coverage,
    Custody,
    Pinned,
    Since,
    lines,
)
from harness.report.page.view import to_page
from tests.make.report_inputs import report

FIRST = Looks(1, 1, 0, 0.025, (), ())
KEPT = Custody(
    Coverage(1600, 1440, 12, 0, {}), None, "harness policy pin p.toml", 1, "0" * 64, None,
    {"tantivy": FIRST},
)  # fmt: skip


def test_unjudged_queries_are_the_first_line() -> None:
    assert (
        lines(KEPT)[0]
        == "1,600 queries: 160 (10.0 %) have no judgement; 12 have no relevant document."
    )
    more = Coverage(1600, 1600, 0, 3, {"tantivy": 2})
    assert lines(replace(KEPT, coverage=more))[0] == (
        "1,600 queries, all of them judged; 3 judged queries are not in the query set;"
        " tantivy left 2 unanswered."
    )


def test_one_query_has_and_two_have() -> None:
    one = replace(KEPT, coverage=Coverage(100, 99, 1, 0, {}))
    assert lines(one)[0] == ("100 queries: 1 (1.0 %) has no judgement; 1 has no relevant document.")


def test_queries_that_were_left_out_of_the_data_are_counted() -> None:
    found = replace(KEPT, coverage=Coverage(285, 285, 0, 0, {}, left_out=15))
    assert lines(found)[0] == (
        "285 queries, all of them judged; without a judgement, and so left out: 15 of 300 queries."
    )


def test_queries_that_are_documents_are_counted() -> None:
    found = replace(KEPT, coverage=Coverage(285, 285, 0, 0, {}, own=2))
    said = "2 queries are also in the corpus: hits of its own id are left out."
    assert lines(found)[0] == f"285 queries, all of them judged; {said}"


def test_times_that_cannot_be_derived_are_named_as_such() -> None:
    said = "Times are taken as the file of the race states them; they cannot be derived again."
    assert said in lines(replace(KEPT, raced=True))
    assert said not in lines(KEPT)


def test_pins_of_other_names_only_are_told() -> None:
    said = lines(replace(KEPT, pinned_names=("mail", "news")))[1]
    assert said.startswith("NOT PINNED under this name: the policy has pins of mail, news.")
    pinned = replace(KEPT, pinned=Pinned("2026-03-01", 1, ()), pinned_names=("mail",))
    assert lines(pinned)[1].startswith("As pinned on 2026-03-01")


@pytest.mark.parametrize(
    ("pinned", "says"),
    [
        (
            None,
            "NOT PINNED: nothing notices a trimmed query set. Pin it: harness policy pin",
        ),
        (Pinned("2026-03-01", 1, ()), "As pinned on 2026-03-01: queries, judgements and race"),
        (Pinned("2026-03-01", 2, ()), "As pinned on 2026-03-01 (second pin): queries"),
        (
            Pinned("2026-03-01", 4, ("1 query added (b)", "race k is 20, pinned 50")),
            "NOT AS PINNED on 2026-03-01: 1 query added (b); race k is 20, pinned 50.",
        ),
    ],
)
def test_the_pin_is_the_second(pinned: Pinned | None, says: str) -> None:
    assert lines(replace(KEPT, pinned=pinned))[1].startswith(says)


def test_what_changed_since_the_last_decision_on_other_evidence() -> None:
    since = Since("2026-02-01T00:00:00+00:00", ("1 query removed (a)",))
    assert lines(replace(KEPT, since=since))[2] == (
        "Since the decision of 2026-02-01 00:00 UTC, the last on other evidence: 1 query"
        " removed (a)."
    )


def test_looks_are_the_last() -> None:
    assert lines(KEPT)[-2:] == (
        "Every step is judged for the first time.",
        "The experiment log begins here, so nothing is known of earlier decisions.",
    )
    fifth = replace(KEPT, number=5, earlier=("race", "tantivy against fts5 by policy 'b', 3x"))
    assert lines(fifth)[-2:] == (
        "Every step is judged for the first time.",
        (
            "Earlier in the experiment log, of which this is line 5: race; tantivy against fts5"
            " by policy 'b', 3x."
        ),
    )
    fourth = Looks(
        2,
        4,
        2,
        0.1,
        ("another race",),
        (("2026-02-01", "promote"), ("2026-02-02", "hold"), ("2026-02-03", "hold")),
    )
    assert lines(replace(KEPT, number=5, looks={"a": FIRST, "tantivy": fourth}))[-1] == (
        "tantivy: 4th look (2 at results, 4 at times, 2 of them races that no gate judged; the"
        " larger counts). Earlier outcomes: promote on 2026-02-01, hold 2 times, last on"
        " 2026-02-03. Changed since the last look: another race."
    )
    stopped = Looks(2, 2, 0, 0.05, (), (), resumed=3)
    assert lines(replace(KEPT, number=5, looks={"tantivy": stopped}))[-1] == (
        "tantivy: second look (2 at results, 2 at times; the larger counts; races resumed after a"
        " stop: 3)."
    )


def test_the_same_for_machines() -> None:
    found = replace(KEPT, pinned=Pinned("2026-03-01", 2, ("1 query added (b)",)))
    said = EvidencePart.of(found).model_dump(mode="json")
    assert (said["queries"], said["judged"], said["unjudged"]) == (1600, 1440, 160)
    assert said["pin"]["differences"] == ["1 query added (b)"]
    kept = RecordPart.model_validate(found).model_dump(mode="json")
    assert (kept["number"], kept["since"]) == (1, None)
    assert kept["steps"]["tantivy"]["looks"] == 1


@pytest.mark.slow
def test_both_pages_show_it() -> None:
    kept = replace(report(), custody=KEPT)
    assert "<li>1,600 queries: 160 (10.0 %) have no judgement; 12 have" in to_page([kept])
    assert "- 1,600 queries: 160 (10.0 %) have no" in to_markdown([kept])
    assert "NOT PINNED" not in to_page([report()])
