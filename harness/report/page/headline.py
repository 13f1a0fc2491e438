"""The answer to all steps in one sentence, with what blocks the first that may not be taken."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from harness.core.gate import Verdict
from harness.report.page.cards import Card, GateRow, Tone

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
ARE = {Verdict.FAIL: "fail", Verdict.INCONCLUSIVE: "are inconclusive"}
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
    rest = (*card.because[1:], *card.more)
    alike = [row for row in rest if not gate.interval and _same_cause(row, gate)]
    others = Counter(row.verdict for row in rest if row not in alike)
    more = [f"{others[verdict]} more {word}" for verdict, word in BLOCKS.items() if others[verdict]]
    and_more = f"; {_listed(more)}" if more else ""
    subject = f"{gate.gate} {IS[gate.verdict]}"
    if alike:
        subject = f"{gate.gate} and {len(alike)} more {ARE[gate.verdict]}"
    found = f"{subject} ({said}{and_more})"
    return f": {found}" if alone else f". {card.step}: {found}"


def _same_cause(one: GateRow, other: GateRow) -> bool:
    return (one.verdict, one.reason) == (other.verdict, other.reason)


def _listed(names: Iterable[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last
