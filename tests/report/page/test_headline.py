"""All steps in one sentence."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.core.gate import Outcome, Verdict
from harness.report.page.cards import Card, GateRow, Tone, headline

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
        tone=tone, answer="", counts="", effect="", gain="",
        latency="", remains=(), sure=(), more=(),
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


def test_several_blocked_steps_have_their_reasons_on_their_cards() -> None:
    cards = (step("a", Tone.PROMOTE), step("b", Tone.HOLD, GATE), step("c", Tone.UNSURE, BUSY))
    assert headline(cards) == "Yes to a; no to b; not yet to c."


def test_a_yes_shows_the_gain_and_a_no_its_reason() -> None:
    gain, times = "nDCG@10 +0.0900 [0.0500, 0.1300]", "p95 12.1 → 9.30 ms"
    yes = replace(step("v2", Tone.PROMOTE), gain=gain, latency=times)
    assert headline((yes,)) == f"Yes to v2 ({gain}, {times})."
    assert headline((replace(yes, gloss="unseen"),)) == f"Yes to v2 (unseen; {gain}, {times})."
    assert gain not in headline((replace(step("v2", Tone.HOLD, GATE), gain=gain),))
