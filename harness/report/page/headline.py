"""The answer to all steps in one sentence, and what blocks those that may not be taken."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from harness.core.gate import Verdict
from harness.report.page.cards import Card, GateRow, Tone

SAID = {
    (Tone.ROLLBACK, True): "take back",
    (Tone.PROMOTE, True): "keep",
    (Tone.PROMOTE, False): "yes to",
    (Tone.UNSURE, True): "no longer proven:",
    (Tone.HOLD, False): "no to",
    (Tone.UNSURE, False): "not yet to",
    (Tone.WAITS, False): "not yet to",
    (Tone.WAITS, True): "not yet to",
}
"""By the look of a step and whether it was taken, in the order in which they are said."""
BLOCKS = {Verdict.FAIL: "failed", Verdict.INCONCLUSIVE: "inconclusive"}
IS = {Verdict.FAIL: "fails", Verdict.INCONCLUSIVE: "is inconclusive"}
ARE = {Verdict.FAIL: "fail", Verdict.INCONCLUSIVE: "are inconclusive"}
BLOCKED = frozenset({Tone.ROLLBACK, Tone.HOLD, Tone.UNSURE})


def headline(cards: Sequence[Card]) -> str:
    """Give the answer, with the reason where one step is blocked; empty without steps."""
    parts = [
        f"{word} {_listed(names)}"
        for word in dict.fromkeys(SAID.values())
        if (names := [_named(card) for card in cards if SAID[card.tone, card.taken] == word])
    ]
    said = "; ".join(parts)
    blocked = _blocked(cards)
    why = f": {_why(blocked[0])}" if len(blocked) == 1 else ""
    return f"{said[:1].upper()}{said[1:]}{why}." if said else ""


def _named(card: Card) -> str:
    return f"{card.step} ({card.gloss})" if card.gloss else card.step


def reasons(cards: Sequence[Card]) -> tuple[str, ...]:
    """Give a sentence for each blocked step where there are several."""
    blocked = _blocked(cards)
    return tuple(f"{card.step}: {_why(card)}." for card in blocked) if len(blocked) > 1 else ()


def remedies(cards: Sequence[Card]) -> tuple[str, ...]:
    """Say what decides steps that are open; once, where several need the same."""
    by_remedy: dict[str, list[str]] = {}
    for card in _blocked(cards):
        gate = card.because[0]
        if gate.verdict is Verdict.INCONCLUSIVE and gate.remedy:
            by_remedy.setdefault(gate.remedy.removesuffix("."), []).append(card.step)
    return tuple(f"To decide {_listed(names)}: {said}." for said, names in by_remedy.items())


def _blocked(cards: Sequence[Card]) -> list[Card]:
    return [card for card in cards if card.tone in BLOCKED and card.because]


def _why(card: Card) -> str:
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
    return f"{subject} ({said}{and_more})"


def _same_cause(one: GateRow, other: GateRow) -> bool:
    return (one.verdict, one.reason) == (other.verdict, other.reason)


def _listed(names: Iterable[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last
