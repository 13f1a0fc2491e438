"""The answer to all steps in one sentence, with what blocks the first that may not be taken."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from harness.core.gate import Verdict
from harness.report.page.cards import Card, Tone

SAID = {
    Tone.ROLLBACK: "take back",
    Tone.PROMOTE: "yes to",
    Tone.HOLD: "no to",
    Tone.UNSURE: "not yet to",
    Tone.WAITS: "not yet to",
}
"""In the order in which they are said."""
BLOCKS = {Verdict.FAIL: "failed", Verdict.INCONCLUSIVE: "inconclusive"}
IS = {Verdict.FAIL: "fails", Verdict.INCONCLUSIVE: "is inconclusive"}
BLOCKED = frozenset({Tone.ROLLBACK, Tone.HOLD, Tone.UNSURE})


def headline(cards: Sequence[Card]) -> str:
    """Give the answer; empty without steps."""
    words = list(dict.fromkeys(SAID.values()))
    parts = [
        f"{word} {_listed(names)}"
        for word in words
        if (names := [card.step for card in cards if SAID[card.tone] == word])
    ]
    said = "; ".join(parts)
    blocked = [card for card in cards if card.tone in BLOCKED and card.because]
    why = _why(blocked[0], alone=len(blocked) == 1) if blocked else ""
    return f"{said[:1].upper()}{said[1:]}{why}." if said else ""


def _why(card: Card, *, alone: bool) -> str:
    """Say what the first gate in the way of a step measured, its bound, and how many more block."""
    gate = card.because[0]
    said = gate.reason.removesuffix(".")
    if gate.interval:
        bound = gate.bound.replace("the control's", f"{card.control}'s")
        said = f"{gate.value} {gate.interval}, required: {bound}"
    others = Counter(row.verdict for row in (*card.because[1:], *card.more))
    more = [f"{others[verdict]} more {word}" for verdict, word in BLOCKS.items() if others[verdict]]
    and_more = f"; {_listed(more)}" if more else ""
    found = f"{gate.gate} {IS[gate.verdict]} ({said}{and_more})"
    return f": {found}" if alone else f". {card.step}: {found}"


def _listed(names: Iterable[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last
