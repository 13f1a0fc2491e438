"""How shipped gates judge drawn trials: batched, and one trial by the gate itself.

``passes`` calls the function below the gate that decides: ``chance_above`` for means, else the
gate's own. ``rule`` judges one trial by the gate of a shipped policy.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from harness.core.engine import Hit, Manifest
from harness.core.errors import EvidenceError
from harness.core.evidence import Agreement, ArmResult, Evidence, Race, Stolen, Traffic
from harness.core.gate import Finding, Verdict
from harness.core.run import Row, Run, Status
from harness.core.scores import Scores
from harness.gates.base.live import MIN_PERIODS, SECONDS
from harness.gates.base.rules import TOUCH, Rules
from harness.policy.load import load_policy
from harness.policy.model import Gate
from harness.shadow.clicks.log import Clicks as ClickLog
from harness.shadow.clicks.log import ShownList
from harness.shadow.clicks.users import preferences
from harness.stats.assisted import assisted
from harness.stats.bounded import Span, chance_above
from harness.stats.calibration import UniqueHits
from harness.stats.sequential.blocks import blocks
from harness.stats.sequential.evalues import evalues_each

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
DIFFERENCES = Span(-1.0, 1.0)


@cache
def shipped(policy: str, rule: str, **keys: object) -> tuple[Gate, Rules]:
    """Give the first gate of a shipped policy with such settings, and the policy's inference."""
    loaded = load_policy(Path("policy") / f"{policy}.toml")
    gates = (gate for step in loaded.steps for gate in step.gates if gate.rule.name == rule)
    return next(
        gate for gate in gates if all(getattr(gate.settings, k) == v for k, v in keys.items())
    ), loaded.rules


QUALITY, RULES = shipped("pairwise", "non_inferior", measure="nDCG@10")
MARGIN = -float(QUALITY.settings.limit or 0)
LEVEL = RULES.level / 2
OVERALL, FEW = LEVEL, 400
"""Level of all looks and candidates together; and resamples, where a question draws them."""


class Said(NamedTuple):
    """A verdict that no gate gives."""

    verdict: Verdict
    cause: str
    reason: str


Verdicted = TypeVar("Verdicted", Finding, Finding | Said)


class Question(Protocol):
    """What is asked of drawn trials."""

    def passes(self, drawn: Any) -> Bools:  # noqa: ANN401  each question has its own drawn trials
        """Say of each trial whether it passes."""

    def rule(self, drawn: Any, trial: int) -> Finding | Said:  # noqa: ANN401  the same
        """Judge one trial by the shipped gate itself."""


def each(question: Question, drawn: object, which: Bools) -> Bools:
    """Judge the trials ``which`` by the gate itself, where nothing batched decides; others fail."""
    found = which.copy()
    found[which] = [
        question.rule(drawn, int(at)).verdict is Verdict.PASS for at in np.flatnonzero(which)
    ]
    return found


class Sample(NamedTuple):
    """Differences, shape (queries, trials), and known clusters of the same shape."""

    values: Floats
    codes: Ints | None = None
    largest: float = RULES.largest_cluster
    """Share of the queries that the policy says one cluster may have."""


def clear(
    values: Floats,
    codes: Ints | None = None,
    *,
    margin: float = MARGIN,
    largest: float = RULES.largest_cluster,
) -> Bools:
    """Say of each column whether its mean is surely above the margin; shape (columns,)."""
    return np.asarray(
        chance_above(values, TOUCH - margin, span=DIFFERENCES, clusters=codes, largest=largest)
        < LEVEL
    )


def judge(values: Floats, codes: Ints | None = None, rules: Rules = RULES) -> Finding:
    """Judge differences by the gate."""
    found = scored(values)
    if codes is not None:
        ids = found.control.scores["nDCG@10"].query_ids
        found = replace(found, clusters=dict(zip(ids, map(str, codes), strict=True)))
    return QUALITY.judge(found, rules)


@dataclass(frozen=True)
class Mean:
    """Whether one candidate loses less than the margin."""

    def passes(self, drawn: Sample) -> Bools:
        if drawn.codes is None:
            return clear(drawn.values, largest=drawn.largest)
        kinds, of = np.unique(drawn.codes, axis=1, return_inverse=True)
        found = np.zeros(drawn.values.shape[1], dtype=bool)
        for kind, codes in enumerate(kinds.T):
            found[of == kind] = clear(drawn.values[:, of == kind], codes, largest=drawn.largest)
        return found

    def rule(self, drawn: Sample, trial: int) -> Finding | Said:
        codes = None if drawn.codes is None else drawn.codes[:, trial]
        rules = replace(RULES, largest_cluster=drawn.largest)
        try:
            return judge(drawn.values[:, trial], codes, rules)
        except EvidenceError as error:  # a policy with such clusters is refused as it is read
            return Said(Verdict.INCONCLUSIVE, "largest_cluster", str(error))


class Several(NamedTuple):
    """Candidates of one trial in columns that follow each other."""

    sample: Sample
    columns: int


@dataclass(frozen=True)
class Shown:
    """Whether any of several candidates passes."""

    def passes(self, drawn: Several) -> Bools:
        return anywhere(Mean().passes(drawn.sample).reshape(-1, drawn.columns).T)

    def rule(self, drawn: Several, trial: int) -> Finding | Said:
        columns = range(trial * drawn.columns, (trial + 1) * drawn.columns)
        return best(Mean().rule(drawn.sample, at) for at in columns)


class Paired(NamedTuple):
    """Differences in the order in which they were judged, and the sizes at which one looks."""

    values: Floats
    sizes: tuple[int, ...]


@dataclass(frozen=True)
class Looks:
    """Whether a candidate passes at any look."""

    def passes(self, drawn: Paired) -> Bools:
        return anywhere(np.array([clear(drawn.values[:size]) for size in drawn.sizes]))

    def rule(self, drawn: Paired, trial: int) -> Finding:
        return best(judge(drawn.values[:size, trial]) for size in drawn.sizes)


def anywhere(said: Bools) -> Bools:
    """Say of each trial whether any passes, shape (looks or candidates, trials)."""
    return np.asarray(said.any(axis=0))


def best(findings: Iterator[Verdicted]) -> Verdicted:
    """Give the first PASS; else the last."""
    for found in findings:
        if found.verdict is Verdict.PASS:
            return found
    return found


class Pages(NamedTuple):
    """Ranks 2 to 10 of both arms, shape (arms, queries, ranks, trials)."""

    hidden: Bools
    """Not judged."""
    relevant: Bools


GUARD, _ = shipped("pairwise", "judged_guard")


@dataclass(frozen=True)
class Reading:
    """Whether a step passes whose measure takes unjudged hits for irrelevant."""

    def passes(self, drawn: Pages) -> Bools:
        shares = 1 - drawn.hidden.sum(axis=2) / 10
        gap = shares[1] - shares[0]
        limit = float(GUARD.settings.limit or 0)
        even = [clear(side, margin=limit) for side in (gap, -gap)]
        return np.asarray(even[0] & even[1] & clear(np.zeros(gap.shape)))

    def rule(self, drawn: Pages, trial: int) -> Finding:
        control, candidate = 1 - drawn.hidden[..., trial].sum(axis=2) / 10
        measured = scored(np.zeros(len(control)))
        found = QUALITY.judge(measured, RULES)
        if found.verdict is not Verdict.PASS:
            return found
        return GUARD.judge(scored(candidate - control, "Judged@10"), RULES)


class Times(NamedTuple):
    """Nanoseconds of both arms, shape (processes, queries, trials)."""

    control: Floats
    candidate: Floats


@dataclass(frozen=True)
class Racing:
    """Whether the candidate's percentile keeps its ratio to the control's."""

    percent: str

    def passes(self, drawn: Times) -> Bools:
        gate, _ = shipped("migration", "latency_ratio", percent=self.percent)
        levels = [
            times.mean(axis=(0, 1))
            if self.percent == "mean"
            else np.percentile(times, float(self.percent[1:]), axis=(0, 1))
            for times in drawn
        ]
        return each(self, drawn, levels[1] / levels[0] < float(gate.settings.limit or 0))

    def rule(self, drawn: Times, trial: int) -> Finding:
        gate, rules = shipped("migration", "latency_ratio", percent=self.percent)
        control, candidate = (times[..., trial].astype(np.int64) for times in drawn)
        return gate.judge(replace(scored(np.zeros(2)), race=raced(control, candidate)), rules)


def raced(control: Ints, candidate: Ints) -> Race:
    """Give a race on a quiet machine, without caches."""
    times = {"control": control, "candidate": candidate}
    shape = control.shape
    turns = (np.arange(shape[1]) + np.arange(shape[0])[:, None]) % 2
    quiet = Stolen(0.0, 0.0, 0.0, 0.0, 0.0, 1.0)
    return Race(
        query_ids=tuple(f"q{at}" for at in range(shape[1])),
        elapsed_ns=times,
        lost_ns={arm: np.zeros(shape, dtype=np.int64) for arm in times},
        turns={"control": turns, "candidate": 1 - turns},
        repeated_ns={arm: each[:, :20] for arm, each in times.items()},
        unseen_ns={arm: each[:, :20] for arm, each in times.items()},
        reference_ns=np.full((shape[0], 3), 1_500_000),
        stolen=dict.fromkeys(times, quiet),
        verified=dict.fromkeys(times, True),
        machine="made",
        raced_at="2026-11-01T12:00:00+00:00",
    )


class Pairs(NamedTuple):
    """Whether the candidate failed, shape (pairs, trials), when in seconds, and for whom."""

    failed: Bools
    at: Floats
    client: Ints


@dataclass(frozen=True)
class Live:
    """Whether rare failures of live traffic keep their bound, at any of eight looks."""

    def passes(self, drawn: Pairs) -> Bools:
        gate, rules = shipped("live", "anytime_failures")
        its: Any = gate.settings
        at_ns, period_s = (drawn.at * 1e9).astype(np.int64), SECONDS[its.period]
        may = np.zeros(drawn.failed.shape[1], dtype=bool)
        for end in (len(at_ns) * look // 8 for look in range(1, 9)):
            for trial, bad in enumerate(drawn.failed[:end].T.astype(np.float64)):
                cut = blocks(bad, at_ns[:end], block_s=its.block_s, period_s=period_s)
                if cut.periods < MIN_PERIODS:
                    break
                may[trial] |= cut.surely(its.limit, above=False, confidence=rules.confidence)
        return each(self, drawn, may)

    def rule(self, drawn: Pairs, trial: int) -> Finding:
        gate, rules = shipped("live", "anytime_failures")
        looks = (logged(drawn, trial, len(drawn.at) * look // 8) for look in range(1, 9))
        made = scored(np.zeros(2))
        return best(gate.judge(replace(made, traffic=log), rules) for log in looks)


def logged(drawn: Pairs, trial: int, end: int) -> Traffic:
    """Give the log of one trial, up to a pair."""
    failed, at = drawn.failed[:end, trial], (drawn.at[:end] * 1e9).astype(np.int64)
    return Traffic(
        attempted=end, passed_over={}, asked=np.ones(end, dtype=np.int64),
        largest_client=int(np.bincount(drawn.client[:end] + 1).max()), unnamed=0, failed=failed,
        failed_at=at, failures={}, overlap={}, overlap_at={}, control_ns=np.full(end, 1000),
        candidate_ns=np.full(end, 1000), timed_at=at, since="", until="",
    )  # fmt: skip


class Clicks(NamedTuple):
    """Whom sessions prefer, shape (sessions, trials), and their users, shape (sessions,)."""

    signs: Ints
    user: Ints


@dataclass(frozen=True)
class Clicking:
    """Whether users are said to prefer an arm."""

    def passes(self, drawn: Clicks) -> Bools:
        users = np.unique(drawn.user)
        signs = np.array([np.sign(drawn.signs[drawn.user == user].sum(axis=0)) for user in users])
        found = evalues_each(
            signs.astype(np.float64), span=DIFFERENCES, confidence=RULES.confidence, clusters=None
        )
        return np.array([not one.low <= 0 <= one.high for one in found])

    def rule(self, drawn: Clicks, trial: int) -> Said:
        """Judge a log: each session is a list of its own hour, with a click on the arm's hit."""
        began = datetime(2026, 11, 1, tzinfo=UTC)
        lists = [
            ShownList(
                f"{at}", began + timedelta(hours=at), "q", ("control", "candidate"), ("a", "b"),
                (0, 1), user=f"{user}",
            )
            for at, user in enumerate(drawn.user)
        ]  # fmt: skip
        on = {
            f"{at}": frozenset("b" if sign > 0 else "a")
            for at, sign in enumerate(drawn.signs[:, trial])
        }
        found = preferences(ClickLog(tuple(lists), on, 0), confidence=RULES.confidence)
        one = found.candidates["candidate"].estimate
        verdict = Verdict.INCONCLUSIVE if one.low <= 0 <= one.high else Verdict.PASS
        return Said(verdict, "", str(one))


class Lists(NamedTuple):
    """Documents of each trial, and the queries that people judge."""

    shown: tuple[UniqueHits, ...]
    judged: Bools


@dataclass(frozen=True)
class Assisting:
    """Whether a difference from few judgements of people and many of a machine keeps the margin."""

    def passes(self, drawn: Lists) -> Bools:
        return each(self, drawn, np.ones(len(drawn.shown), dtype=bool))

    def rule(self, drawn: Lists, trial: int) -> Said:
        inference = replace(RULES, resamples=FEW)
        try:
            found = assisted(drawn.shown[trial], drawn.judged, clusters=None, inference=inference)
        except EvidenceError as error:
            return Said(Verdict.INCONCLUSIVE, "too_few", str(error))
        sure = found.human.low > TOUCH - MARGIN
        return Said(Verdict.PASS if sure else Verdict.INCONCLUSIVE, "", "")


def scored(differences: Floats, measure: str = "nDCG@10") -> Evidence:
    """Two arms that answered everything, with these differences."""
    ids = tuple(f"q{at}" for at in range(len(differences)))
    arms = (
        ("control", 1 - np.maximum(0, differences)),
        ("candidate", 1 - np.maximum(0, -differences)),
    )
    control, candidate = (_side(arm, ids, values, measure) for arm, values in arms)
    agreement = Agreement((), (), {})
    return Evidence("made", control, candidate, agreement, agreement, {}, {}, {}, None)


def _side(arm: str, ids: tuple[str, ...], values: Floats, measure: str) -> ArmResult:
    manifest = Manifest(arm, "1", 1, "made", arm)
    row = Row(ids[0], Status.ANSWERED, (Hit("d", 1.0, 1.0),), manifest.fingerprint)
    return ArmResult(arm, manifest, Run.of(arm, [row]), {measure: Scores(measure, ids, values, {})})
