"""The canary: a pair with known answers, judged by the same code in every decision.

The decision is void if a measure differs from its formula, a bound from the file, or a verdict from
the known truth.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain
from typing import Any, NamedTuple

from harness.core.errors import EvidenceError
from harness.core.evidence import Evidence
from harness.core.gate import Verdict
from harness.core.printable import many
from harness.core.run import Row
from harness.gates import no_slice_harmed
from harness.policy.canary.answers import wrong_answers
from harness.policy.canary.cases import Written, cases, limit, queries_for, worth
from harness.policy.canary.clocks import clocked
from harness.policy.canary.pair import SHOWN, Pair, Spoil, Spoilt
from harness.policy.model import FEWEST_RESAMPLES, Gate, Policy, Step

SAME = 1e-12
COMPARED = frozenset({"agreement_floor", "coverage"})
"""Rules on the agreement of two runs."""
DRAWS = 50
"""Of times, which hardly differ among each other."""
EVERYTHING = "canary"
"""A slice with every query, for rules that judge all slices."""


class _Asked(NamedTuple):
    """What a gate is asked, over how many queries, and the answers that are right."""

    what: str
    queries: int
    evidence: Evidence
    right: frozenset[Verdict]


def check_canary(policy: Policy) -> None:
    """Judge the synthetic pair by every gate of ``policy``, with the fewest resamples.

    Gates that differ only in name or slice are judged once. Of a gate's slices, one of each margin
    is judged, because every query is in every slice.

    Raises:
        EvidenceError: a verdict is wrong; the message names it.
    """
    wrong = next(chain(wrong_answers(), _wrong(policy)), "")
    if wrong:
        raise EvidenceError(
            f"the canary was answered wrongly: {wrong}. The decision is void: nothing that this"
            " code says may be believed; correct it, and judge again"
        )


def _wrong(policy: Policy) -> Iterator[str]:
    """Say what the gates answer wrongly."""
    rules = replace(policy.rules, resamples=FEWEST_RESAMPLES)
    timed = replace(policy.rules, resamples=DRAWS)
    pairs = _Pairs(policy)
    known: set[str] = set()
    for step in policy.steps:
        for gate in step.gates:
            written = gate.written or gate.settings.model_dump(exclude_none=True)
            yield from _other_bound(step, gate, written)
            if (same := _told(gate, written)) in known:
                continue
            known.add(same)
            tried = _narrow(gate, written)
            for asked in _questions(step, tried, written, pairs, policy):
                found = tried.judge(asked.evidence, timed if gate.settings.timed else rules)
                if found.verdict not in asked.right:
                    yield (
                        f"{asked.what} is judged {found.verdict} by {gate.name!r} of step"
                        f" {step.name} ({gate.rule.name}: {found.bound}) over"
                        f" {many(asked.queries, 'query')}, and must be"
                        f" {' or '.join(sorted(asked.right))}"
                    )


def _questions(
    step: Step, gate: Gate, written: Written, pairs: _Pairs, policy: Policy
) -> Iterator[_Asked]:
    """Give all that is asked of a gate."""
    rule = gate.rule.name
    level = (1 - policy.rules.confidence) / 2
    queries = queries_for(rule, written, level)
    pair = pairs.of(queries, int(written["depth"]) if rule == "negatives" else None)
    slices, compared = _slices(gate), rule in COMPARED
    for case in cases(rule, written, queries, level):
        evidence = pair.evidence(
            step, case.control, case.candidate, slices=slices, compared=compared
        )
        yield _Asked(case.what, queries, evidence, case.right)
    few = pairs.of(1, None).evidence(step, Spoilt(), Spoilt(), slices=(), compared=False)
    arms = step.control, step.candidate
    for one in clocked(rule, written, arms, policy.rules.confidence):
        measured: dict[str, Any] = dict(one.measured)
        yield _Asked(one.what, 1, replace(few, **measured), one.right)


def _told(gate: Gate, written: Written) -> str:
    """Say what a gate asks, but for which slice it asks it of."""
    told = [dict(written), gate.settings.model_dump()]
    for one in told:
        if one.get("slice"):
            one["slice"] = EVERYTHING
    return f"{gate.rule.name} {told}"


def _narrow(gate: Gate, written: Written) -> Gate:
    """Keep one slice of each margin, where a gate looks at several."""
    settings = gate.settings
    if not isinstance(settings, no_slice_harmed.Settings) or not settings.slices:
        return gate
    names = sorted({settings.margin_of(name): name for name in settings.slices}.values())
    margins = {name: settings.margins[name] for name in names if name in settings.margins}
    kept = settings.model_copy(update={"slices": tuple(names), "margins": margins})
    return replace(gate, settings=kept, written={**written, "slices": names, "margins": margins})


def _other_bound(step: Step, gate: Gate, written: Written) -> Iterator[str]:
    """Compare each bound that is judged by with the one that is written."""
    settings = gate.settings
    bounds = [("", limit(gate.rule.name, written), settings.limit)]
    if isinstance(settings, no_slice_harmed.Settings):
        for name in written.get("slices", ()):
            own = float(written.get("margins", {}).get(name, written["margin"]))
            bounds.append((f" on {name}", own, settings.margin_of(name)))
    for where, wanted, found in bounds:
        if wanted is None or found is None or math.isclose(wanted, found, abs_tol=SAME):
            continue
        yield (
            f"{gate.name!r} of step {step.name} is judged by the bound {found:g}{where}, and the"
            f" policy says {wanted:g}"
        )


class _Pairs:
    """Pairs of so many queries that every gate of a policy can be asked about."""

    def __init__(self, policy: Policy) -> None:
        gates = [gate for step in policy.steps for gate in step.gates]
        named = [str(gate.written.get("measure", "")) for gate in gates]
        self._measures = tuple(name for name in policy.measures if worth(name))
        self._depths = tuple(sorted({1, *(int(m[8:]) for m in named if m.startswith("Jaccard@"))}))
        self._rows: dict[tuple[str, int, Spoil | None, int], Row] = {}
        self._made: dict[tuple[int, int | None], Pair] = {}

    def of(self, queries: int, silent_to: int | None) -> Pair:
        """Give the pair; ``silent_to`` is the depth where no document answers any query."""
        key = queries, silent_to
        if key not in self._made:
            self._made[key] = Pair(
                queries=queries,
                measures=self._measures,
                depths=self._depths,
                answerable=silent_to is None,
                k=silent_to or SHOWN,
                rows=self._rows,
            )
        return self._made[key]


def _slices(gate: Gate) -> tuple[str, ...]:
    """Name the slices that a gate looks at; one where it looks at all."""
    named = [*gate.written.get("slices", ()), *gate.written.get("margins", ())]
    return tuple(map(str, named or [gate.written.get("slice", EVERYTHING)]))
