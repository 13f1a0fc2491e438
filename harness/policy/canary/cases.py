"""The right verdict of each rule on a pair with a known difference, at the bound of a policy.

``beyond`` is the fewest queries whose loss exceeds the bound. The mean is then on the wrong side of
it, and a correct interval cannot lie wholly on the right one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from harness.core.gate import Verdict
from harness.policy.canary.pair import Spoil, Spoilt

Written = Mapping[str, Any]
"""The table of a gate as the policy file has it."""
SOUND = Spoilt()
PASSES = frozenset({Verdict.PASS})
FAILS = frozenset({Verdict.FAIL})
NO_PASS = frozenset({Verdict.FAIL, Verdict.INCONCLUSIVE})
LOSSES = 12
"""Losses at the bound: with so many a pair that passes under twice its bound does so surely."""
SPARE = 1.3
"""Times the losses that the confidence alone asks for."""
LEAST, MOST = 50, 1_300
"""Queries of a pair; a tighter bound is tried without the answers that take more."""
WHOLE = frozenset({"nDCG", "RR", "R", "AP", "Judged", "Success"})
"""Measures of which a query answered rightly has 1 and a lost one 0."""
ALIKE = frozenset({"agreement_floor", "coverage", "negatives", "failure_rate", "duplicates"})
"""Rules whose bound is a share of the queries."""
LOSING = frozenset({"non_inferior", "no_slice_harmed", "negatives"})
BOUNDS = (
    "margin", "floor", "max_more", "max_share", "min_share", "max_ratio", "max_ms",
)  # fmt: skip
ROUNDING = 1e-9
BETTER = 0.6
"""Room below which two thirds of what a measure has are more than the bound."""
SCATTER = 0.35
"""Of a gain that some queries have and others have not, beside what the confidence asks for."""
GAIN = 0.3
"""So much more than its bound is a gain beyond doubt."""


class Case(NamedTuple):
    """One pair, and the right verdicts on it."""

    what: str
    control: Spoilt
    candidate: Spoilt
    right: frozenset[Verdict]


def cases(rule: str, written: Written, queries: int, level: float) -> tuple[Case, ...]:
    """Give the right verdicts of the gate ``written``; none for other rules."""
    maker = MAKERS.get(rule)
    if maker is None or not worth(written.get("measure", "nDCG@10")):
        return ()
    return tuple(maker(written, _Size(queries, _losses(level))))


def queries_for(rule: str, written: Written, level: float) -> int:
    """Count the queries of the pair that a gate judges."""
    sure = min(MOST, _sure(rule, written, _losses(level)))
    return max(LEAST, int(written.get("min_queries") or 0), sure)


class _Size(NamedTuple):
    """Queries of a pair, and the losses that are beyond doubt."""

    queries: int
    losses: float


def _losses(level: float) -> float:
    """Total losses of a query that no sample hides: one that shows none is rarer than ``level``."""
    return max(LOSSES, SPARE * -math.log(level))


def _sure(rule: str, written: Written, losses: float) -> int:
    """Count the queries with which an equal candidate is beyond doubt, whatever one is worth."""
    room = _room(rule, written) * (1 if rule in ALIKE else worth(written.get("measure", "nDCG@10")))
    return math.ceil(losses / room) if room else 0


def limit(rule: str, written: Written) -> float | None:
    """Give the bound in the file, on the scale of the rule's estimate; None without one."""
    key = next((key for key in BOUNDS if key in written), None)
    if key is None:
        return None
    return -float(written[key]) if rule in LOSING else float(written[key])


def worth(measure: str) -> float:
    """Give the value of a measure for a correct answer; 0 if unknown here."""
    name, _, depth = measure.replace("(rel=1)", "").partition("@")
    if name in {"Jaccard", "RBO", "tau"}:
        return 1.0
    if name == "P":
        return 1 / int(depth)
    return float(name in WHOLE)


def _room(rule: str, written: Written) -> float:
    """Share of the queries that may go wrong before the bound is reached; 0 where none is."""
    if rule in {"agreement_floor", "coverage"}:
        return 1 - float(written.get("floor", written.get("min_share", 0)))
    if rule == "negatives":
        return float(written["max_more"])
    bound = float(written.get("max_share", written.get("margin", 0)))
    bound = min(bound, *map(float, written.get("margins", {}).values()), 1.0)
    return bound / (worth(written.get("measure", "nDCG@10")) or 1)


def _all_may_go(written: Written) -> bool:
    """Tell whether a candidate could lose all that the control has and keep a margin."""
    widest = max(map(float, (written["margin"], *written.get("margins", {}).values())))
    return widest >= worth(written["measure"]) - ROUNDING


def _lost(written: Written, bound: float, size: _Size) -> frozenset[Verdict]:
    """Give what is said of a loss of everything, against a bound on the difference."""
    whole = worth(written["measure"])
    return FAILS if (whole + bound) / (1 + whole) * size.queries >= size.losses else NO_PASS


def _beyond(room: float, queries: int) -> int:
    """Fewest queries whose loss is more than the bound."""
    return min(queries, math.floor(room * queries + ROUNDING) + 1)


def _within(room: float, queries: int) -> int:
    """Most queries whose loss is less than the bound: nobody can be sure on which side it lies."""
    return max(0, math.ceil(room * queries - ROUNDING) - 1)


def _loses(written: Written, size: _Size) -> Iterator[Case]:
    """non_inferior, and the same of every slice."""
    room, queries = _room("non_inferior", written), size.queries
    idle, sure = _all_may_go(written), queries >= _sure("non_inferior", written, size.losses)
    if idle or sure:
        yield Case("an equal candidate", SOUND, SOUND, NO_PASS if idle else PASSES)
    if room < BETTER and sure and not idle:
        yield Case("a better candidate", Spoilt(queries // 3), SOUND, PASSES)
    for count, how in ((_beyond(room, queries), "more"), (_within(room, queries), "less")):
        if count and not idle:
            said = f"one that loses just {how} than the bound"
            yield Case(said, SOUND, Spoilt(count), NO_PASS)
    right = NO_PASS if idle else _lost(written, -float(written["margin"]), size)
    yield Case("one that loses everything", SOUND, Spoilt(queries), right)


def _gains(written: Written, size: _Size) -> Iterator[Case]:
    room, queries = _room("superior", written), size.queries
    yield Case("an equal candidate", SOUND, SOUND, NO_PASS)
    for count, how in ((_within(room, queries), "less"), (_beyond(room, queries), "more")):
        said = f"one that gains just {how} than the bound"
        yield Case(said, Spoilt(min(count, queries)), SOUND, NO_PASS)
    more = GAIN * worth(written["measure"])
    shown = min(queries * more, queries * more**2 / SCATTER) >= size.losses
    if room + GAIN < 1 and shown:
        more = math.ceil((room + GAIN) * queries)
        yield Case("one that gains much more than the bound", Spoilt(more), SOUND, PASSES)
    right = _lost(written, float(written["margin"]), size)
    yield Case("one that loses everything", SOUND, Spoilt(queries), right)


def _differs(written: Written, size: _Size) -> Iterator[Case]:
    idle = _all_may_go(written)
    if idle or size.queries >= _sure("equivalent", written, size.losses):
        yield Case("an equal candidate", SOUND, SOUND, NO_PASS if idle else PASSES)
    if (room := _room("equivalent", written)) < 1:
        apart = Spoilt(_beyond(room, size.queries))
        yield Case("one that loses just more than the bound", SOUND, apart, NO_PASS)
        yield Case("one that gains just more than the bound", apart, SOUND, NO_PASS)


def _agrees(written: Written, size: _Size) -> Iterator[Case]:
    how, of = (Spoil.TURNED, 2) if written["measure"] == "tau" else (Spoil.LOST, 1)
    room, queries = _room("agreement_floor", written) / of, size.queries
    if queries >= of * _sure("agreement_floor", written, size.losses):
        yield Case("the same lists", SOUND, SOUND, PASSES)
    apart = Spoilt(_beyond(room, queries), how)
    yield Case("lists just less alike than the floor", SOUND, apart, NO_PASS)
    surely = float(written["floor"]) * queries >= of * size.losses
    yield Case("lists wholly different", SOUND, Spoilt(queries, how), FAILS if surely else NO_PASS)


def _rare(how: Spoil) -> Callable[[Written, _Size], Iterator[Case]]:
    def made(written: Written, size: _Size) -> Iterator[Case]:
        queries = size.queries
        if queries >= _sure("failure_rate", written, size.losses):
            yield Case("an arm without a fault", SOUND, SOUND, PASSES)
        room = _room("failure_rate", written)
        often, nearly = (Spoilt(count(room, queries), how) for count in (_beyond, _within))
        yield Case(f"a candidate that just too often {how}", SOUND, often, NO_PASS)
        if nearly.count:
            yield Case(f"a candidate that nearly too often {how}", SOUND, nearly, NO_PASS)
        yield Case(f"a control that just too often {how}", often, SOUND, NO_PASS)
        right = FAILS if (1 - room) * queries >= size.losses else NO_PASS
        yield Case(f"a candidate that always {how}", SOUND, Spoilt(queries, how), right)

    return made


def _compared(written: Written, size: _Size) -> Iterator[Case]:
    yield Case("a query set that was compared", SOUND, SOUND, PASSES)
    failed = Spoilt(_beyond(_room("coverage", written), size.queries), Spoil.FAILED)
    yield Case("one of which just too much was not", SOUND, failed, NO_PASS)


def _signs(written: Written, size: _Size) -> Iterator[Case]:  # noqa: ARG001  every maker is called alike
    yield Case("an arm that signs its answers", SOUND, SOUND, PASSES)
    yield Case("one answer in another's name", SOUND, Spoilt(1, Spoil.UNSIGNED), FAILS)


def _says_nothing(written: Written, size: _Size) -> Iterator[Case]:
    """negatives: both are silent where nothing is to be found, but for some queries."""
    silent, queries = Spoilt(otherwise=Spoil.SILENT), size.queries
    room, sure = _room("negatives", written), queries >= _sure("negatives", written, size.losses)
    if sure:
        yield Case("an equal candidate", silent, silent, PASSES)
    for count, how in ((_beyond(room, queries), "more"), (_within(room, queries), "less")):
        if count:
            loud = Spoilt(count, Spoil.JUNK, Spoil.SILENT)
            yield Case(f"one that shows junk {how} often than the bound", silent, loud, NO_PASS)
    always = Spoilt(queries, Spoil.JUNK)
    surely = (1 - room) * queries >= 2 * size.losses
    yield Case("one that always shows junk", silent, always, FAILS if surely else NO_PASS)
    if sure:
        yield Case("a control that always does", always, silent, PASSES)


MAKERS: Mapping[str, Callable[[Written, _Size], Iterator[Case]]] = {
    "non_inferior": _loses,
    "no_slice_harmed": _loses,
    "superior": _gains,
    "equivalent": _differs,
    "agreement_floor": _agrees,
    "failure_rate": _rare(Spoil.FAILED),
    "duplicates": _rare(Spoil.REPEATED),
    "coverage": _compared,
    "identity": _signs,
    "negatives": _says_nothing,
}
