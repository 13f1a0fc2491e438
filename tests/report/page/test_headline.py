"""All steps in one sentence."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.core.gate import Outcome, Verdict
from harness.report.page.cards import Card, GateRow, Tone, headline, reasons, remedies

GATE = GateRow(
    gate="Names are found", rule="non_inferior", verdict=Verdict.FAIL, bound="loses less than 0.02",
    value="-0.0500", interval="[-0.0700, -0.0300]", n="400", p_value="", reason="it lost",
    remedy="", timed=False, bar=None,
)  # fmt: skip

OPEN = replace(GATE, verdict=Verdict.INCONCLUSIVE)
BUSY = replace(OPEN, interval="", reason="too busy")


def step(name: str, tone: Tone, *because: GateRow) -> Card:
    return Card(
        step=name, gloss="", control="old", candidate="new", taken=False, outcome=Outcome.HOLD,
        tone=tone, answer="", counts="", effect="", gain="", sure=(), more=(),
        gates=because, because=because,
    )  # fmt: skip


def taken(card: Card) -> Card:
    return replace(card, taken=True)


@pytest.mark.parametrize(
    ("cards", "says"),
    [
        ((), ""),
        ((step("a", Tone.PROMOTE),), "Yes to a."),
        (
            (replace(step("shadow", Tone.PROMOTE), gloss="new is unseen"), step("b", Tone.PROMOTE)),
            "Yes to shadow (new is unseen) and b.",
        ),
        (
            (step("a", Tone.PROMOTE), step("b", Tone.PROMOTE), step("c", Tone.WAITS)),
            "Yes to a and b; not yet to c.",
        ),
        (
            (step("a", Tone.PROMOTE), step("b", Tone.HOLD, GATE), step("c", Tone.UNSURE, GATE)),
            ("Yes to a; no to b; not yet to c."),
        ),
        (
            (step("a", Tone.HOLD, replace(GATE, value="16.7 times", bound="below 10 times")),),
            (
                "No to a: Names are found fails"
                " (16.7 times [-0.0700, -0.0300], required: below 10 times)."
            ),
        ),
        (
            (step("a", Tone.HOLD, replace(GATE, bound="less than 3 times the control's p95")),),
            (
                "No to a: Names are found fails (-0.0500 [-0.0700, -0.0300],"
                " required: less than 3 times old's p95)."
            ),
        ),
        (
            (taken(step("a", Tone.ROLLBACK, replace(GATE, interval=""))), step("b", Tone.WAITS)),
            "Take back a; not yet to b: Names are found fails (it lost).",
        ),
        (
            (step("a", Tone.UNSURE, replace(OPEN, interval="")),),
            "Not yet to a: Names are found is inconclusive (it lost).",
        ),
        (
            (replace(step("a", Tone.HOLD, GATE, GATE, OPEN), more=(OPEN,)),),
            (
                "No to a: Names are found fails (-0.0500 [-0.0700, -0.0300], required: loses less"
                " than 0.02; 1 more failed and 2 more inconclusive)."
            ),
        ),
        (
            (replace(step("a", Tone.UNSURE, BUSY, BUSY, OPEN), more=(BUSY,)),),
            (
                "Not yet to a: Names are found and 2 more are inconclusive"
                " (too busy; 1 more inconclusive)."
            ),
        ),
        (
            (taken(step("a", Tone.PROMOTE)), step("b", Tone.PROMOTE), step("c", Tone.WAITS)),
            "Keep a; yes to b; not yet to c.",
        ),
        (
            (taken(step("a", Tone.UNSURE, BUSY)), step("b", Tone.PROMOTE)),
            "Yes to b; no longer proven: a: Names are found is inconclusive (too busy).",
        ),
    ],
)
def test_the_answer_is_one_sentence(cards: tuple[Card, ...], says: str) -> None:
    assert headline(cards) == says


def test_each_of_several_blocked_steps_has_its_reason() -> None:
    cards = (step("a", Tone.PROMOTE), step("b", Tone.HOLD, GATE), step("c", Tone.UNSURE, BUSY))
    assert headline(cards) == "Yes to a; no to b; not yet to c."
    assert reasons(cards) == (
        "b: Names are found fails (-0.0500 [-0.0700, -0.0300], required: loses less than 0.02).",
        "c: Names are found is inconclusive (too busy).",
    )
    assert reasons(cards[:2]) == ()


def test_what_decides_open_steps_is_said_once() -> None:
    busy = replace(BUSY, remedy="take a quiet machine")
    few = replace(OPEN, remedy="about 411 judged queries.")
    cards = (
        step("a", Tone.PROMOTE),
        step("b", Tone.UNSURE, busy),
        step("c", Tone.HOLD, replace(GATE, remedy="a better engine")),
        step("d", Tone.UNSURE, few, busy),
        step("e", Tone.UNSURE, busy),
    )
    assert remedies(cards) == (
        "To decide b and e: take a quiet machine.",
        "To decide d: about 411 judged queries.",
    )
    assert remedies((step("c", Tone.UNSURE, BUSY),)) == ()


def test_a_yes_shows_the_gain_and_a_no_its_reason() -> None:
    gain = "nDCG@10 +0.0900 [0.0500, 0.1300], p95 12.1 → 9.30 ms"
    yes = replace(step("v2", Tone.PROMOTE), gain=gain)
    assert headline((yes,)) == f"Yes to v2 ({gain})."
    assert headline((replace(yes, gloss="unseen"),)) == f"Yes to v2 (unseen; {gain})."
    assert gain not in headline((replace(step("v2", Tone.HOLD, GATE), gain=gain),))


def test_the_largest_need_of_all_open_gates_decides_a_step() -> None:
    few = replace(OPEN, remedy="about 72 judged queries (now 35) for power 0.8")
    many = replace(OPEN, remedy="about 2,853 judged queries (now 35); fewer than 257 leave room")
    busy = replace(BUSY, remedy="take a quiet machine")
    card = replace(step("v2", Tone.UNSURE, busy, few), more=(many,))
    assert remedies((card,)) == (f"To decide v2: {many.remedy}.",)
    assert remedies((replace(card, because=(GATE, few)),)) == ()


def test_no_number_of_queries_stands_beside_one_that_hardly_helps() -> None:
    few = replace(OPEN, remedy="about 72 judged queries (now 35) for power 0.8")
    never = "about 12,695 judged queries (now 202): more queries will hardly help, change it"
    cards = [step("v2", Tone.UNSURE, few, replace(OPEN, remedy=never)), step("b", Tone.UNSURE, few)]
    assert remedies(cards) == (
        "v2: more queries will hardly help; change the candidate, or the bound and its reason.",
        "To decide b: about 72 judged queries (now 35) for power 0.8.",
    )
