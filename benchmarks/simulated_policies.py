"""How often a step of a shipped policy is promoted: wrongly where a truth is a bound, and rightly.

Queries differ as those of two engines that are alike, by steps of nDCG@10; measures of a query move
together, and gates over a slice see the rows of the whole. Where a gate asks for a gain, there is
one. No query fails. Gates on time and on identity pass.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.adversaries import ALIKE, Floats, rare, steps
from benchmarks.simulated_differences import CONFIDENCE, OFTEN, SEED, STEPS
from benchmarks.simulated_gates import GateCase, passes
from harness.core.scores import Estimate
from harness.gates import (
    agreement_floor,
    equivalent,
    negatives,
    no_slice_harmed,
    non_inferior,
    superior,
)
from harness.gates.base.shares import ShareSettings
from harness.measures.spans import span_of
from harness.policy.load import load_policy
from harness.policy.model import Gate, Step
from harness.stats.bounded import Span
from harness.stats.proportion import share, size_for

GAIN = 0.05
"""What is gained beyond the margin where a gate asks for a gain."""
OVERLAP = 0.9
"""Mean of an agreement where all is well, of floors below it."""
LOST = 0.05
FEW = 20
"""Trials of what goes well; a fifth of the others, where that is more."""
NEGATIVE = 0.1
"""Share of the queries that have no answer, as in the made-up messages."""
FILTERS = ("ack", "direction", "importance", "product", "project", "recipient", "sender", "thread")
SHAPES: Mapping[str, Mapping[str, float]] = {
    "mail": {
        **dict.fromkeys(("edited", "identifier", "keyword", "language", "natural-language"), 4),
        **dict.fromkeys(("paraphrase", "phrase", "prefix", "typo"), 4),
        **{f"filter-{name}": 2 for name in (*FILTERS, "time")},
        "hostile": 2,
    },
    "messages": {"form-identifier": 1, "form-natural-language": 1},
    "migration": {"identifier": 1, "natural-language": 3},
}
"""How many queries each slice has, in parts, as the data sets of these policies have them."""
Rows = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Question:
    """One gate on a mean: what it asks, of which values, and in which slice."""

    gate: str
    asked: GateCase
    values: tuple[str, str]
    """Measure, and the arm compared with where it is not the control."""
    slice: str | None


@dataclass(frozen=True, slots=True)
class Promoted:
    """How often a step is promoted over so many queries."""

    policy: str
    step: str
    queries: int
    wrong: Estimate
    """The highest rate over its gates, each in turn with its bound as the truth."""
    gate: str
    """Of which gate it is."""
    right: float


def questions(step: Step, names: tuple[str, ...]) -> tuple[Question, ...]:
    """Give the gates on means of a step; a gate over slices asks once a slice."""
    return tuple(found for gate in step.gates for found in _questions(gate, names))


def _questions(gate: Gate, names: tuple[str, ...]) -> Iterator[Question]:
    match gate.settings:
        case no_slice_harmed.Settings() as its:
            for name in its.slices or names:
                asked = GateCase("no_slice_harmed", -its.margin_of(name), "above", 0.0)
                yield Question(f"{gate.name} ({name})", asked, (its.measure, ""), name)
        case superior.Settings() as its:
            asked = GateCase("superior", its.margin, "above", its.margin + GAIN)
            yield Question(gate.name, asked, (its.measure, its.versus or ""), its.slice)
        case non_inferior.Settings() as its:
            asked = GateCase("non_inferior", -its.margin, "above", 0.0)
            yield Question(gate.name, asked, (its.measure, ""), its.slice)
        case negatives.Settings() as its:
            asked = GateCase("negatives", -its.max_more, "above", 0.0)
            yield Question(gate.name, asked, (its.unit, ""), "negative")
        case equivalent.Settings() as its:
            asked = GateCase(gate.rule.name, its.limit, "within", 0.0)
            yield Question(gate.name, asked, (its.measure, ""), its.slice)
        case agreement_floor.Settings() as its:
            span = span_of(its.measure) or Span(0.0, 1.0)
            good = max(OVERLAP, (1 + its.floor) / 2)
            asked = GateCase("agreement_floor", its.floor, "above", good, span)
            yield Question(gate.name, asked, (its.measure, ""), its.slice)


def rows_of(policy: str, queries: int) -> dict[str | None, Rows]:
    """Give the rows of each slice; those of a slice and its parts, as ``filter``, are shared."""
    shape = SHAPES.get(policy, {})
    total = sum(shape.values())
    found: dict[str | None, Rows] = {
        None: np.arange(queries),
        "negative": np.arange(max(2, int(NEGATIVE * queries))),
    }
    start = 0.0
    for name, part in shape.items():
        ends = start / total * queries, (start + part) / total * queries
        found[name] = np.arange(round(ends[0]), max(round(ends[0]) + 2, round(ends[1])))
        start += part
    parts = [rows for name, rows in found.items() if name and name.startswith("filter-")]
    return found | ({"filter": np.concatenate(parts)} if parts else {})


class World:
    """Values of every measure of a step, where all is well."""

    def __init__(self, step: Step, policy: str, queries: int, trials: int) -> None:
        self.rows = rows_of(policy, queries)
        self.questions = questions(step, tuple(SHAPES.get(policy, {})))
        self._shape = (queries, trials)
        self._values: dict[tuple[str, str], Floats] = {}
        for number, values in enumerate(dict.fromkeys(one.values for one in self.questions)):
            self._values[values] = self._well(number, values)

    def _well(self, number: int, values: tuple[str, str]) -> Floats:
        """Draw one measure: nothing differs but where a gate asks for a gain."""
        asked = [one for one in self.questions if one.values == values]
        span = asked[0].asked.span
        drawn = (
            self._level(asked[0].asked.good)
            if asked[0].asked.rule == "agreement_floor"
            else (self._apart(number, 0.0))
        )
        for one in asked:
            if one.asked.rule == "superior":
                rows = self.rows[one.slice]
                drawn[rows] = self._apart(number, one.asked.good)[rows]
        return np.clip(drawn, *span)

    def _apart(self, number: int, mean: float) -> Floats:
        """Differences by steps; which queries move, and where to, is the same for all measures."""
        moved = max(ALIKE, min(1.0, 2 * abs(mean) / float(STEPS @ OFTEN)))
        ways = steps(np.random.default_rng(SEED), self._shape, mean, moved=moved)
        assert ways is not None, mean  # noqa: S101  twice as many move as are needed
        sizes = np.random.default_rng((SEED, 1 + number)).choice(STEPS, self._shape, p=OFTEN)
        return np.asarray(np.sign(ways) * sizes)

    def _level(self, mean: float) -> Floats:
        """Agreements as beta variables; the lower their mean, the wider."""
        return np.random.default_rng((SEED, 99)).beta(10 * mean, 10 * (1 - mean), self._shape)

    def of(self, one: Question, columns: Rows) -> Floats:
        """Values of one gate in some trials."""
        return self._values[one.values][np.ix_(self.rows[one.slice], columns)]

    def promoted(self, but: Question | None = None) -> Rows:
        """Trials in which all gates pass; one of them with its bound as the truth."""
        columns = np.arange(self._shape[1])
        for one in sorted(self.questions, key=lambda one: one != but):
            values = self.of(one, columns)
            if one == but:
                values = at_bound(one.asked, (len(values), len(columns)))
            columns = columns[passes(one.asked, values, None)] if len(columns) else columns
        return columns


def at_bound(asked: GateCase, shape: tuple[int, int]) -> Floats:
    """Draw values whose mean is the gate's bound: a few queries lose everything."""
    least, most = asked.span
    mean = 2 * (asked.truths[0] - least) / (most - least) - 1
    values = rare(np.random.default_rng((SEED, 7)), shape, mean, lost=max(LOST, -mean))
    assert values is not None, asked  # noqa: S101  no bound is near 1
    return np.asarray(least + (values + 1) * (most - least) / 2)


def needed_for_shares(step: Step) -> int:
    """Count the queries below which the gates on shares do not pass, though no query fails."""
    shares = [gate.settings for gate in step.gates if isinstance(gate.settings, ShareSettings)]
    return max(
        (size_for(0, ceiling=its.max_share, confidence=CONFIDENCE) for its in shares), default=0
    )


def rightly(step: Step, policy: str, queries: int, trials: int) -> float | None:
    """Share of promotions where all is well; None for a step without a gate on a mean."""
    world = World(step, policy, queries, trials)
    if not world.questions:
        return None
    return len(world.promoted()) / trials * (queries >= needed_for_shares(step))


def promoted(path: Path, queries: int, trials: int) -> Iterator[Promoted]:
    """Yield each step with gates on means, of a policy in a file."""
    for step in load_policy(path).steps:
        right = rightly(step, path.stem, queries, max(FEW, trials // 5))
        if right is None:
            continue
        world = World(step, path.stem, queries, trials)
        enough = queries >= needed_for_shares(step)
        wrong = [(len(world.promoted(one)) * enough, one.gate) for one in world.questions]
        count, gate = max(wrong)
        rate = share(count, trials, confidence=CONFIDENCE)
        yield Promoted(path.stem, step.name, queries, rate, gate, right)


def needed(path: Path, trials: int, *, power: float, most: int) -> Iterator[tuple[str, int | None]]:
    """Yield each step and how many queries, doubled from 100, promote it with so much power.

    None where not even ``most`` do.
    """
    for step in load_policy(path).steps:
        right, queries = rightly(step, path.stem, 100, trials), 100
        while right is not None and right < power and queries < most:
            queries *= 2
            right = rightly(step, path.stem, queries, trials)
        if right is not None:
            yield step.name, queries if right >= power else None
