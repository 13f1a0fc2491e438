"""How shipped gates judge drawn trials: batched, and one trial by the gate itself.

``passes`` calls the function below the gate that decides: ``chance_above`` for means, else the
gate's own. ``rule`` judges one trial by the gate of a shipped policy.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from harness.clicks.credit import Clicks as ClickLog
from harness.clicks.credit import ShownList, preferences
from harness.core.engine import Hit, Manifest
from harness.core.errors import EvidenceError
from harness.core.evidence import Agreement, ArmResult, Evidence, Race, Samples, Stolen, Traffic
from harness.core.evidence import Sample as Sampled
from harness.core.gate import Finding, Verdict
from harness.core.records import Qrels
from harness.core.run import Row, Run, Status
from harness.core.scores import Scores
from harness.gates.base.queries import share_of
from harness.gates.base.rules import TOUCH, Rules, below
from harness.measures.missing_judgements import MissingJudgements, draw, rate_of
from harness.measures.missing_judgements import judge as judge_sample
from harness.measures.quality import score
from harness.policy.decision import open_premises, over_budget
from harness.policy.load import load_policy
from harness.policy.looks import Looks as Counted
from harness.policy.model import Gate
from harness.shadow.live import MIN_PERIODS, SECONDS
from harness.stats.bounded import ValueRange, chance_above, low_ends
from harness.stats.sequential import blocks, evalues_each

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
DIFFERENCES = ValueRange(-1.0, 1.0)


@cache
def shipped(policy: str, rule: str, **keys: object) -> tuple[Gate, Rules]:
    """Return the first gate of a shipped policy with such settings, and the policy's inference."""
    loaded = load_policy(Path("policy") / f"{policy}.toml")
    gates = (gate for step in loaded.steps for gate in step.gates if gate.rule == rule)
    return next(
        gate for gate in gates if all(getattr(gate.settings, k) == v for k, v in keys.items())
    ), loaded.rules


POLICY = load_policy(Path("policy/pairwise.toml"))
QUALITY, RULES = shipped("pairwise", "non_inferior", measure="nDCG@10")
ANSWERS, _ = shipped("pairwise", "failure_rate")
UNANSWERED = float(ANSWERS.settings.limit or 0)
MARGIN = -float(QUALITY.settings.limit or 0)
LEVEL = RULES.level / 2
LIVE_LEVEL = shipped("live", "anytime_failures")[1].level / 2
OVERALL = POLICY.alpha
"""Level of all attempts together; and resamples, where a question draws them."""


class Said(NamedTuple):
    """A verdict that no gate gives."""

    verdict: Verdict
    cause: str
    reason: str


Verdicted = TypeVar("Verdicted", Finding, Finding | Said)


class Question(Protocol):
    """What is asked of drawn trials."""

    def passes(self, drawn: Any) -> Bools:  # noqa: ANN401  each question has its own drawn trials
        """Return of each trial whether it passes."""

    def rule(self, drawn: Any, trial: int) -> Finding | Said:  # noqa: ANN401  the same
        """Judge one trial by the shipped gate itself."""


def each(question: Question, drawn: object, which: Bools) -> Bools:
    """Judge the trials ``which`` by the gate itself, where nothing batched decides; others fail."""
    found = which.copy()
    found[which] = [
        question.rule(drawn, int(at)).verdict is Verdict.PASS for at in np.flatnonzero(which)
    ]
    return found


def is_open(premise: str) -> bool:
    """Return whether a policy that does not declare ``premise`` holds its step by that name."""
    loaded = load_policy(Path("policy") / "migration.toml")
    step = next(one for one in loaded.steps if any(gate.settings.timed for gate in one.gates))
    hard = np.full((4, 2), 1_000_000)
    evidence = replace(scored(np.zeros(2)), kinds={Race: raced(hard, hard)})
    key = {premise: None}
    without = (
        replace(loaded, rules=replace(loaded.rules, largest_cluster=0.0))
        if premise in asdict(loaded.rules)
        else replace(loaded, premises=loaded.premises.model_copy(update=key))
    )
    open_ = open_premises(without, step, evidence)
    held = [one.reason.startswith(f"{premise} (") for one in open_]
    return held == [True] and not open_premises(loaded, step, evidence)


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
    largest: float = RULES.largest_cluster,
) -> Bools:
    """Return of each column whether its mean is surely above the margin; shape (columns,)."""
    return np.asarray(
        chance_above(values, TOUCH - MARGIN, span=DIFFERENCES, clusters=codes, largest=largest)
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
        return tried(Mean().rule(drawn.sample, at) for at in columns)


class Failures(NamedTuple):
    """Whether the candidate failed, shape (queries, trials), and known clusters, (queries,)."""

    failed: Bools
    codes: Ints


@dataclass(frozen=True)
class Failing:
    """Whether few enough queries of the candidate go unanswered; the control answers all."""

    def passes(self, drawn: Failures) -> Bools:
        found = [share_of(bad, drawn.codes, RULES) for bad in drawn.failed.T]
        return np.array([below(one, UNANSWERED) is Verdict.PASS for one in found])

    def rule(self, drawn: Failures, trial: int) -> Finding:
        ids = [f"q{at:04}" for at in range(len(drawn.codes))]
        sides = []
        for arm, failed in (
            ("control", np.zeros(len(ids), dtype=bool)), ("candidate", drawn.failed[:, trial])
        ):  # fmt: skip
            rows = [
                Row(of, Status.FAILED, (), error="made so")
                if bad
                else Row(of, Status.ANSWERED, (Hit("d", 1.0, 1.0),))
                for of, bad in zip(ids, failed, strict=True)
            ]
            sides.append(side(arm, rows, {}))
        clusters = dict(zip(ids, map(str, drawn.codes), strict=True))
        return ANSWERS.judge(replace(evidence_of(*sides), clusters=clusters), RULES)


class Paired(NamedTuple):
    """Differences in the order in which they were judged, and the sizes at which one looks."""

    values: Floats
    sizes: tuple[int, ...]


@dataclass(frozen=True)
class Looks:
    """Whether a candidate passes at any look."""

    def passes(self, drawn: Paired) -> Bools:
        return anywhere(np.array([clear(drawn.values[:size]) for size in drawn.sizes]))

    def rule(self, drawn: Paired, trial: int) -> Finding | Said:
        return tried(judge(drawn.values[:size, trial]) for size in drawn.sizes)


def anywhere(said: Bools) -> Bools:
    """Return whether any attempt within the budget passes; takes shape (attempts, trials)."""
    return np.asarray(said[: POLICY.attempts].any(axis=0))


def tried(findings: Iterable[Finding | Said]) -> Finding | Said:
    """Return the first PASS of attempts at one control, each counted as the experiment log does."""
    (step,) = POLICY.steps

    def budgeted(at: int, found: Finding | Said) -> Finding | Said:
        counted = Counted(at, 0, 0, at * POLICY.level, (), ())
        return over_budget(POLICY, {step.name: counted}).get(step.name, found)

    return best(budgeted(at, found) for at, found in enumerate(findings, start=1))


def best(findings: Iterator[Verdicted]) -> Verdicted:
    """Return the first PASS; else the last."""
    for found in findings:
        if found.verdict is Verdict.PASS:
            return found
    return found


class Pages(NamedTuple):
    """Evidence whose judgements miss some hits, and which of these are relevant in each trial."""

    evidence: Evidence
    missing: MissingJudgements
    relevant: Bools
    """Shape (hits, trials)."""


SAMPLED = 400
"""Unjudged hits that people judge."""


@dataclass(frozen=True)
class Reading:
    """Whether a candidate passes by a sample of its unjudged hits and of the control's."""

    def passes(self, drawn: Pages) -> Bools:
        found = [
            judge_sample(drawn.missing, *self.given(drawn), self.sample(drawn, trial))
            for trial in range(drawn.relevant.shape[1])
        ]
        known, change = (
            np.array(each).T for each in zip(*((a.certain, a.change) for a in found), strict=True)
        )
        known, span, largest = (
            known + drawn.missing.difference[:, None],
            found[0].span,
            RULES.largest_cluster,
        )
        level = LEVEL / 2 if any(span) else LEVEL
        low = low_ends(known, span=DIFFERENCES, level=level, clusters=None, largest=largest)
        if any(span):
            low += low_ends(change, span=span, level=level, clusters=None, largest=largest)
        return np.asarray(low > TOUCH - MARGIN)

    def rule(self, drawn: Pages, trial: int) -> Finding:
        sample = self.sample(drawn, trial)
        held = {**drawn.evidence.kinds, Samples: Samples({sample.key: sample})}
        return QUALITY.judge(replace(drawn.evidence, kinds=held), RULES)

    @staticmethod
    def given(drawn: Pages) -> tuple[tuple[Run, Run], Qrels]:
        """Return what was run and what was judged before."""
        evidence = drawn.evidence
        assert evidence.qrels is not None  # noqa: S101  made so
        return (evidence.control.run, evidence.candidate.run), evidence.qrels

    @staticmethod
    def sample(drawn: Pages, trial: int) -> Sampled:
        """Draw a sample and judge it, with all hits of a query of which one is relevant."""
        open_, good = drawn.missing, drawn.relevant[:, trial]
        rate = rate_of(open_, SAMPLED)
        taken = draw(open_, rate, trial).taken
        wanted = taken | np.isin(open_.query, open_.query[taken & good])
        grades: dict[str, dict[str, int]] = {}
        doc_ids = open_.doc_ids
        for at in np.flatnonzero(wanted).tolist():
            of = open_.query_ids[open_.query[at]]
            grades.setdefault(of, {})[doc_ids[at]] = int(good[at])
        return Sampled("control", "candidate", "nDCG@10", trial, rate, grades, "people")


class Times(NamedTuple):
    """Nanoseconds of both arms, shape (processes, queries, trials)."""

    control: Floats
    candidate: Floats


@dataclass(frozen=True)
class Racing:
    """Whether a percentile of the candidate keeps its ratio to the control's."""

    percent: str
    per_query: bool = False

    def passes(self, drawn: Times) -> Bools:
        return each(self, drawn, np.ones(drawn.control.shape[2], dtype=bool))

    def rule(self, drawn: Times, trial: int) -> Finding:
        gate, rules = shipped(
            "migration", "latency_ratio", percent=self.percent, per_query=self.per_query
        )
        control, candidate = (times[..., trial].astype(np.int64) for times in drawn)
        race = raced(control, candidate)
        return gate.judge(replace(scored(np.zeros(2)), kinds={Race: race}), rules)


def raced(control: Ints, candidate: Ints) -> Race:
    """Return a race on a quiet machine, without caches."""
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
        return best(gate.judge(replace(made, kinds={Traffic: log}), rules) for log in looks)


def logged(drawn: Pairs, trial: int, end: int) -> Traffic:
    """Return the log of one trial, up to a pair."""
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


def scored(differences: Floats) -> Evidence:
    """Two arms that answered everything, with these differences of nDCG@10, judged completely."""
    ids = tuple(f"q{at}" for at in range(len(differences)))
    row = (Row(ids[0], Status.ANSWERED, (Hit("d", 1.0, 1.0),)),)
    sides = (
        side(
            arm, row, {"nDCG@10": Scores("nDCG@10", ids, 1 - np.maximum(0, sign * differences), {})}
        )
        for arm, sign in (("control", 1), ("candidate", -1))
    )
    return evidence_of(*sides, complete="made so")


def evidence_of(control: ArmResult, candidate: ArmResult, **more: Any) -> Evidence:  # noqa: ANN401  fields
    """Evidence of two arms without agreement and slices."""
    agreement = Agreement((), (), {})
    return Evidence("made", control, candidate, agreement, agreement, {}, {}, {}, **more)


def side(arm: str, rows: Sequence[Row], scores: Mapping[str, Scores]) -> ArmResult:
    """One arm with its answers."""
    return ArmResult(arm, Manifest(arm, "1", 1, "made", arm), Run.of(arm, rows), scores)


def paged(hidden: Bools) -> Evidence:
    """Evidence of two arms that share a relevant hit at rank 1; some below are not judged.

    ``hidden`` has shape (arms, queries, ranks 2 to 5). What is judged there is irrelevant.
    """
    names, ids = ("control", "candidate"), [f"q{at:04}" for at in range(hidden.shape[1])]
    shown = {
        arm: {of: [f"{of}s", *(f"{of}{arm[1]}{at}" for at in range(hidden.shape[2]))] for of in ids}
        for arm in names
    }
    qrels = Qrels({
        of: dict(sorted(
            [(f"{of}s", 1)]
            + [
                (doc, 0)
                for side, arm in enumerate(names)
                for doc, missed in zip(shown[arm][of][1:], hidden[side, at], strict=True)
                if not missed
            ]
        ))
        for at, of in enumerate(ids)
    })  # fmt: skip
    sides = []
    for arm in names:
        rows = [
            Row(of, Status.ANSWERED, [Hit(doc, 1 / at, 1 / at) for at, doc in enumerate(docs, 1)])
            for of, docs in shown[arm].items()
        ]
        sides.append(side(arm, rows, score(Run.of(arm, rows), qrels, ["nDCG@10"], tuple(ids))))
    return evidence_of(*sides, qrels=qrels)
