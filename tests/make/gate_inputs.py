"""Small evidence, sound unless a test spoils it on purpose."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.core.engine import Hit, Manifest
from harness.core.evidence import Agreement, ArmResult, Evidence, Load, Race, Stolen, Traffic
from harness.core.gate import Finding
from harness.core.run import Row, Run, Status
from harness.core.scores import Scores
from harness.gates.base import rules
from harness.gates.base.rules import Rules
from harness.policy.model import Gate

RULES = Rules(confidence=0.95, resamples=1_000, seed=7, power=0.8)
MACHINE = "two cores of a test bench"
REFERENCE_NS = 1_000_000
Floats = NDArray[np.float64]


def ids(count: int) -> tuple[str, ...]:
    return tuple(f"q{at:04}" for at in range(count))


def manifest(arm: str, corpus: str = "c0ffee") -> Manifest:
    return Manifest(arm, "1.0", 1_000, corpus, f"settings of {arm}")


def scores(
    measure: str, values: Floats, undefined: Mapping[str, tuple[str, ...]] | None = None
) -> Scores:
    """Scores of the first queries that are not undefined."""
    gone = {q for some in (undefined or {}).values() for q in some}
    kept = tuple(q for q in ids(len(values) + len(gone)) if q not in gone)
    return Scores(measure, kept, values, undefined or {})


def run(arm: str, query_ids: Sequence[str], status: Mapping[str, Status] | None = None) -> Run:
    """Every query answered with one shared hit and some of the arm's own, less ``status``."""
    own = (Hit(f"{arm}{at}", 0.5, 0.5) for at in range(4))
    hits = (Hit("d1", 1.0, 1.0), *own)
    rows = []
    for query_id in query_ids:
        ended = (status or {}).get(query_id, Status.ANSWERED)
        rows.append(
            Row(query_id, ended, hits, manifest(arm).fingerprint)
            if ended is Status.ANSWERED
            else Row(query_id, ended, error="broken pipe")
        )
    return Run.of(arm, rows)


def side(arm: str, count: int, **by_measure: Scores) -> ArmResult:
    return ArmResult(arm, manifest(arm), run(arm, ids(count)), by_measure, f"index of {arm}")


def agreement(
    count: int, measure: str, values: Floats | None, classes: Sequence[str] | None = None
) -> Agreement:
    found = {} if values is None else {measure: scores(measure, values)}
    return Agreement(ids(count), tuple(classes or ["exact"] * count), found)


def evidence(count: int, **changes: Any) -> Evidence:  # noqa: ANN401  fields of Evidence
    """Two arms that answered ``count`` queries; no scores, no race."""
    plain = Evidence(
        dataset="toy", control=side("old", count), candidate=side("new", count),
        agreement=agreement(count, "Jaccard@50", None), noise=agreement(count, "Jaccard@50", None),
        others={}, slices={}, clusters={}, complete="scores alone are made here",
    )  # fmt: skip
    named = {"race": Race, "load": Load, "traffic": Traffic}
    kinds = {named[key]: changes.pop(key) for key in list(changes) if key in named}
    known = {kind: found for kind, found in kinds.items() if found is not None}
    return replace(plain, kinds=known, **changes)


def scored(
    control: Floats,
    candidate: Floats,
    measure: str = "nDCG@10",
    **changes: Any,  # noqa: ANN401  fields of Evidence
) -> Evidence:
    """Return evidence with one measure for both arms."""
    count = len(control)
    return evidence(
        count,
        **{
            "control": side("old", count, **{measure: scores(measure, control)}),
            "candidate": side("new", count, **{measure: scores(measure, candidate)}),
        }
        | changes,
    )


def levels(count: int, seed: int = 0) -> Floats:
    return np.random.default_rng(seed).uniform(0.2, 0.8, count)


def shifted(control: Floats, by: float, spread: float = 0.05, seed: int = 1) -> Floats:
    """Return ``control`` plus differences of exactly this mean and standard deviation."""
    noise = np.random.default_rng(seed).normal(size=len(control))
    noise = spread * (noise - noise.mean()) / noise.std(ddof=1)
    return np.asarray(control + by + noise, dtype=np.float64)


def times(count: int, processes: int, factor: float, jitter: float, seed: int) -> Any:  # noqa: ANN401
    """First answers, shape (processes, queries); both arms have the same hard queries."""
    rng = np.random.default_rng(seed)
    per_query = np.random.default_rng(99).lognormal(13, 0.3, count)
    return (factor * per_query * rng.lognormal(0, jitter, (processes, count))).astype(np.int64)


def stolen(**shares: float) -> Stolen:
    """Return what a quiet machine takes, but for ``shares``."""
    quiet = {"waited": 0.001, "others": 0.002, "steal": 0.0, "throttled": 0.0}
    return Stolen(**quiet | {"preempted": 0.01, "worked": 0.99} | shares)


def race(
    factor: float,
    *,
    jitter: float = 0.02,
    count: int = 100,
    **changes: Any,  # noqa: ANN401  fields of Race
) -> Race:
    """Race old against new, ``factor`` times as slow, in four processes, quiet and uncached."""
    turns = (np.arange(count) + np.arange(4)[:, None]) % 2
    plain = Race(
        query_ids=ids(count),
        elapsed_ns={
            "old": times(count, 4, 1.0, jitter, 1),
            "new": times(count, 4, factor, jitter, 2),
        },
        lost_ns={arm: np.zeros((4, count), dtype=np.int64) for arm in ("old", "new")},
        turns={"old": turns, "new": 1 - turns},
        repeated_ns={
            "old": times(count, 4, 1.0, jitter, 3)[:, :20],
            "new": times(count, 4, factor, jitter, 4)[:, :20],
        },
        unseen_ns={
            "old": times(count, 4, 1.0, jitter, 5),
            "new": times(count, 4, factor, jitter, 6),
        },
        reference_ns=np.full((4, 3), REFERENCE_NS),
        stolen={"old": stolen(), "new": stolen()},
        verified={"old": True, "new": True},
        machine=MACHINE,
        raced_at="2026-11-01T12:00:00+00:00",
    )
    return replace(plain, **changes)


def judge(
    rule: str,
    evidence: Evidence,
    **settings: Any,  # noqa: ANN401  keys of the rule
) -> Finding:
    """Judge as a policy would: settings are checked, the rule is found by name."""
    gate = Gate("the gate", rule, rules.load(rule).model_validate(settings))
    return gate.judge(evidence, RULES)
