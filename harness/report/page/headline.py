"""The answer to all steps in one sentence, with what blocks the first that may not be taken."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from harness.report.page.cards import Card, Tone

SAID = {
    Tone.ROLLBACK: "take back",
    Tone.PROMOTE: "yes to",
    Tone.HOLD: "no to",
    Tone.UNSURE: "not yet to",
    Tone.WAITS: "not yet to",
}
"""In the order in which they are said."""
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
    why = next((_why(card) for card in cards if card.tone in BLOCKED and card.because), "")
    return f"{said[:1].upper()}{said[1:]}{why}." if said else ""


def _why(card: Card) -> str:
    """Say what the first gate in the way of a step measured, and what it asks for."""
    gate = card.because[0]
    if not gate.interval:
        return f" ({card.step}: {gate.gate}: {gate.reason})"
    measured = f"{gate.value} {gate.interval}".replace(" ratio ", " times ")
    bound = gate.bound.replace("the control's", f"{card.control}'s")
    return f" ({card.step}: measured {measured}; required: {bound})"


def _listed(names: Iterable[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last
