"""How often the gates of a policy pass where their bound is lost, on the queries at hand.

Two arms whose labels are swapped at random, cluster by cluster, do not differ: what differences are
left is noise of the size that the comparison has (Fisher's sign-flip). On top of it a loss of the
gate's bound is planted in several patterns; a loss of the control is a gain of the candidate.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from harness.core.errors import EvidenceError
from harness.core.evidence import Evidence
from harness.core.scores import Estimate, independent
from harness.gates.base.differences import AskedMean, PairedComparison, asked_means, compare
from harness.gates.base.rules import TOUCH, Rules
from harness.policy.model import Gate, Policy, Step
from harness.stats.bounded import chance_above
from harness.stats.interval import share
from harness.stats.sequential import evalues_each

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]
Bools = NDArray[np.bool_]
NEARLY_ALL = 0.999
EVEN = 0.5
PRONE = 10.0
"""Rare losses hit the best queries, which together could lose so many times what is lost."""
GROUP = 4
"""Queries, or clusters of them, of a planted cluster."""
LIFT = 0.02
"""What all other queries gain where rare losses are planted under a bound of 0."""


class Pattern(StrEnum):
    """How a planted loss is spread over the queries."""

    SCATTERED = "total losses scattered over the queries, among the noise at hand"
    RARE = "rare total losses of the best queries, no other difference"
    CLUSTERED = f"total losses of whole clusters of {GROUP} that the gate knows"


@dataclass(frozen=True, slots=True)
class Planted:
    """How often a gate passed where a loss of exactly its bound was planted."""

    pattern: str
    passed: Estimate
    """Share of the trials, with its exact interval."""


@dataclass(frozen=True, slots=True)
class Tried:
    """One gate on means of differences, and how often it passed under each truth."""

    step: str
    gate: str
    what: str
    """Measure and slice."""
    queries: int
    limit: float
    planted: tuple[Planted, ...]
    """Worst first; without patterns that the scores of the arms leave no room for."""
    fine: Estimate | None
    """Share of PASS where the candidate equals the control, or gains twice the limit."""


class Values(NamedTuple):
    """One measure of both arms, query by query, each of shape (queries,)."""

    control: Floats
    candidate: Floats
    clusters: Codes
    """Codes from 0; queries of one code are swapped, lost and drawn together."""

    @property
    def level(self) -> float:
        """Mean of what a planted loss can take away: of either arm, as labels are swapped."""
        return float((self.control.mean() + self.candidate.mean()) / 2)

    @property
    def units(self) -> int:
        """Number of clusters, those of one query among them."""
        return int(self.clusters.max(initial=-1)) + 1


class Trials(NamedTuple):
    """Differences candidate - control whose mean is known, a column a trial."""

    differences: Floats
    """Shape (queries, trials)."""
    clusters: Codes | None
    """Shape (queries,): what the gate is given; None for those of the comparison."""


def selftest(policy: Policy, evidence: Mapping[str, Evidence], *, trials: int) -> tuple[Tried, ...]:
    """Try each gate on means of differences of a policy; ``evidence`` is by step.

    Each mean that a gate requires is tried by itself, and the worst is given: a gate that requires
    several is wrong no more often. Gates with too few queries are left out.
    """
    return tuple(
        max(means, key=lambda one: one.planted[0].passed.value if one.planted else -1.0)
        for step in policy.steps
        for gate in step.gates
        if (means := list(_tried(step, gate, evidence[step.name], policy.rules, trials)))
    )


def _tried(
    step: Step, gate: Gate, evidence: Evidence, rules: Rules, trials: int
) -> Iterator[Tried]:
    for asked in asked_means(gate.settings, evidence.slices):
        compared = compare(evidence, asked.settings, asked.versus)
        ids, known = compared.paired.query_ids, compared.known
        if independent(ids, evidence.clusters) < asked.settings.required_queries:
            continue
        alone = np.arange(len(ids))
        of = Values(
            compared.paired.control, compared.paired.candidate, alone if known is None else known
        )
        limit = asked.limit

        def rated(pattern: Pattern, truth: float) -> Estimate | None:
            drawn = draw(pattern, of, truth, trials=trials, seed=rules.seed)  # noqa: B023
            if drawn is None:
                return None
            said = passed(asked, compared, drawn, rules)  # noqa: B023
            return share(int(said.sum()), trials, confidence=rules.confidence)

        planted = [
            Planted(str(pattern), rate) for pattern in Pattern if (rate := rated(pattern, limit))
        ]
        yield Tried(
            step=step.name,
            gate=gate.name,
            what=asked.settings.where,
            queries=len(ids),
            limit=limit,
            planted=tuple(sorted(planted, key=lambda one: -one.passed.value)),
            fine=rated(Pattern.SCATTERED, max(0.0, 2 * limit)),
        )


def passed(asked: AskedMean, compared: PairedComparison, drawn: Trials, rules: Rules) -> Bools:
    """Return which columns pass, shape (trials,); lost queries count as the worst."""
    groups = compared.known if drawn.clusters is None else drawn.clusters
    found = _clears(drawn.differences, groups, asked, compared, rules)
    unpaired = len(compared.paired.unpaired)
    if not unpaired:
        return found
    if drawn.clusters is None:
        groups = compared.groups
    elif groups is not None:
        groups = np.concatenate([groups, groups.max() + 1 + np.arange(unpaired)])
    for worst in (-1.0, 1.0) if asked.both_sides else (-1.0,):
        lost = np.full((unpaired, drawn.differences.shape[1]), worst)
        values = np.concatenate([drawn.differences, lost])
        found &= _clears(values, groups, asked, compared, rules)
    return found


def _clears(
    values: Floats, groups: Codes | None, asked: AskedMean, compared: PairedComparison, rules: Rules
) -> Bools:
    found = np.ones(values.shape[1], dtype=np.bool_)
    for sign in (1.0, -1.0) if asked.both_sides else (1.0,):
        if compared.every_look:
            ends = evalues_each(
                sign * values, span=compared.span, confidence=rules.confidence, clusters=groups
            )
            found &= [one.low > asked.limit + TOUCH for one in ends]
        else:
            p_values = chance_above(
                sign * values,
                asked.limit + TOUCH,
                span=compared.span,
                clusters=groups,
                largest=rules.largest_cluster,
            )
            found &= p_values < rules.level / 2
    return found


def draw(
    pattern: Pattern, values: Values, truth: float, *, trials: int, seed: int
) -> Trials | None:
    """Draw trials of this true mean difference; None where so much cannot be lost."""
    if trials < 1 or values.units < 2:  # noqa: PLR2004  one has no spread
        raise EvidenceError("a selftest needs two independent queries and one trial, or more")
    rng = np.random.default_rng((seed, list(Pattern).index(pattern)))
    if pattern is Pattern.RARE:
        return _rare(values, truth, trials, rng)
    if abs(truth) > NEARLY_ALL * values.level:
        return None
    if pattern is Pattern.CLUSTERED and values.units <= GROUP:
        return None
    loss = abs(truth) / values.level if truth else 0.0
    units, known = values.clusters, None
    if pattern is Pattern.CLUSTERED:
        units = known = (rng.permutation(values.units) // GROUP)[values.clusters]
    swapped = (rng.random((int(units.max()) + 1, trials), dtype=np.float32) < EVEN)[units]
    lost = (rng.random((int(units.max()) + 1, trials)) < loss)[units]
    first = np.where(swapped, values.candidate[:, None], values.control[:, None])
    second = np.where(swapped, values.control[:, None], values.candidate[:, None])
    (first if truth > 0 else second)[lost] = 0
    return Trials(second - first, known)


def _rare(values: Values, truth: float, trials: int, rng: np.random.Generator) -> Trials | None:
    """Draw differences above ``truth``, of the best queries rarely a total loss."""
    base = 0.0 if truth < 0 else max(2 * truth, LIFT)
    taken = np.bincount(values.clusters, weights=values.control + base)
    wanted = len(values.control) * (base - truth)
    order = np.argsort(-taken / np.bincount(values.clusters), kind="stable")
    could = np.cumsum(taken[order])
    if could[-1] * NEARLY_ALL < wanted:
        return None
    prone = order[: int(np.searchsorted(could, PRONE * wanted)) + 1]
    loss = wanted / float(taken[prone].sum())
    lost = np.zeros((values.units, trials), dtype=np.bool_)
    lost[prone] = rng.random((len(prone), trials)) < loss
    found = np.full((len(values.control), trials), base)
    by_query = lost[values.clusters]
    found[by_query] = np.broadcast_to(-values.control[:, None], found.shape)[by_query]
    return Trials(found, None)
