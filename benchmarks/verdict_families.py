"""Candidates that must not be promoted, and equal ones: what ``benchmarks/verdicts.py`` draws.

A family names its question (``benchmarks/verdict_questions.py``), the highest rate of false PASS
that is promised, and a function that draws trials: of a candidate that must not pass, or of an
equal one. To add one, write such a function, and a line in ``FAMILIES``.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from benchmarks.verdict_questions import (
    LEVEL,
    LIVE_LEVEL,
    MARGIN,
    OVERALL,
    RULES,
    UNANSWERED,
    Clicking,
    Clicks,
    Failing,
    Failures,
    Floats,
    Live,
    Looks,
    Mean,
    Pages,
    Paired,
    Pairs,
    Question,
    Racing,
    Reading,
    Sample,
    Several,
    Shown,
    Times,
    paged,
)
from harness.core.records import Qrels, Query
from harness.core.scores import codes
from harness.corpus.clusters import near_duplicates, of_queries
from harness.measures.missing_judgements import missing

Rng = np.random.Generator
STEPS = np.array([1.0, 0.6309, 0.5, 0.4307, 0.3691, 0.1309, 0.0693])
OFTEN = np.array([0.10, 0.10, 0.10, 0.15, 0.25, 0.15, 0.15])
"""How far a query of nDCG@10 moves, and how often so far."""
MOVED = 0.1
"""Share of the queries that an equal candidate moves, up as often as down."""


class Draws(NamedTuple):
    """What is drawn."""

    n: int
    """Queries, or what the family counts."""
    trials: int
    equal: bool
    """Whether the candidate is equal; else it must not pass."""


@dataclass(frozen=True, slots=True)
class Family:
    """One way to lose what must not be lost."""

    part: str
    name: str
    question: Question
    draw: Callable[[Rng, Draws], Any]
    promised: float = LEVEL
    premise: str = ""
    """The one that the family breaks (``harness.policy.decision``); empty where it keeps all."""


def equal(rng: Rng, shape: tuple[int, ...], moved: float = MOVED) -> Floats:
    """Draw differences of nDCG@10 whose mean is 0."""
    ways = rng.choice([1.0, -1.0, 0.0], shape, p=[moved / 2, moved / 2, 1 - moved])
    return np.asarray(ways * rng.choice(STEPS, shape, p=OFTEN))


def losing(rng: Rng, shape: tuple[int, ...], moved: float) -> Floats:
    """Draw differences that lose the margin by the same steps; by total losses where few move."""
    apart = MARGIN / float(STEPS @ OFTEN)
    if apart > moved:
        return rare(rng, shape)
    ways = rng.choice(
        [1.0, -1.0, 0.0], shape, p=[(moved - apart) / 2, (moved + apart) / 2, 1 - moved]
    )
    return np.asarray(ways * rng.choice(STEPS, shape, p=OFTEN))


def rare(rng: Rng, shape: tuple[int, ...], lost: float = MARGIN) -> Floats:
    """Draw differences of which few are total losses, and the others nothing."""
    return np.where(rng.random(shape) < lost, -1.0, 0.0)


def independent(rng: Rng, of: Draws, moved: float) -> Sample:
    """Draw independent queries."""
    return Sample((equal if of.equal else losing)(rng, (of.n, of.trials), moved))


def candidates(rng: Rng, of: Draws) -> Several:
    """Draw twenty candidates on one query set; of equal ones the first."""
    if of.equal:
        return Several(Sample(equal(rng, (of.n, of.trials))), 1)
    return Several(Sample(rare(rng, (of.n, 20 * of.trials))), 20)


def looked_at(rng: Rng, of: Draws, looks: int = 0, *, drift: bool = False) -> Paired:
    """Draw queries that are looked at so often, or at each 25; the second half may be others."""
    values = equal(rng, (of.n, of.trials)) if of.equal else rare(rng, (of.n, of.trials))
    if drift and not of.equal:
        values[: of.n // 2] = equal(rng, (of.n // 2, of.trials))
        values[of.n // 2 :] = rare(rng, (of.n - of.n // 2, of.trials), 2 * MARGIN)
    if looks:
        return Paired(values, tuple(of.n * at // looks for at in range(1, looks + 1)))
    return Paired(values, tuple(range(25, of.n + 1, 25)))


def paraphrases(rng: Rng, of: Draws, each: int, *, shown: bool = False) -> Sample:
    """Draw needs that are each asked in several ways; where ``shown``, by like words.

    These ways share four words of five, and their judged documents. Otherwise nothing shows them.
    """
    needs, draw = -(-of.n // each), equal if of.equal else rare
    values = np.repeat(draw(rng, (needs, of.trials)), each, axis=0)[: of.n]
    if not shown:
        return Sample(values)
    need = [at // each for at in range(of.n)]
    queries = [
        Query(f"q{at:04}", " ".join(word(5 * of + place) for place in range(4)) + f" {word(at)}x")
        for at, of in enumerate(need)
    ]
    qrels = Qrels({
        one.query_id: {f"d{of}": 1, f"e{of}": 1} for one, of in zip(queries, need, strict=True)
    })
    names = of_queries(queries, near_duplicates(queries, qrels))
    found = codes([one.query_id for one in queries], names)
    return Sample(values, None if found is None else np.repeat(found[:, None], of.trials, axis=1))


def word(number: int) -> str:
    """Return a word of letters for a number."""
    return "".join("bdfgklmprt"[int(digit)] + "o" for digit in f"{number:04}")


def large(rng: Rng, of: Draws, each: int, *, stated: bool = True) -> Sample:
    """Draw single queries, and rarely a known cluster of so many; all that is lost is in those.

    Where none is in a sample, only the policy can say that there may be one.
    """
    largest = each / of.n if stated else RULES.largest_cluster
    clusters = rng.binomial(-(-of.n // each), MARGIN, of.trials)
    at = np.arange(of.n)[:, None]
    clustered = at < each * clusters
    codes = np.where(clustered, at // each, of.n + at)
    if not of.equal:
        return Sample(np.where(clustered, -1.0, 0.0), codes, largest)
    together = np.repeat(equal(rng, (-(-of.n // each), of.trials)), each, axis=0)[: of.n]
    return Sample(np.where(clustered, together, equal(rng, (of.n, of.trials))), codes, largest)


FOUND = 0.005
"""Share of the unjudged hits that are relevant where the candidate is equal."""


def unjudged(rng: Rng, of: Draws, judged: float) -> Pages:
    """Draw pages of which rank 1 is relevant and shared, and hits below are rarely judged.

    What is judged is irrelevant. Of what is not, so much is relevant that the candidate loses the
    margin; or few in both arms.
    """
    evidence = paged(rng.random((2, of.n, 4)) >= judged)
    assert evidence.qrels is not None  # noqa: S101  made so
    open_ = missing(evidence.control.run, evidence.candidate.run, evidence.qrels, "nDCG@10")
    lost = open_.weight if of.equal else np.where(open_.loss > open_.gain, open_.loss, 0.0)
    share = FOUND if of.equal else min(1.0, MARGIN * of.n / float(lost.sum()))
    chance = share * (lost > 0)
    return Pages(evidence, open_, rng.random((len(lost), of.trials)) < chance[:, None])


def race(rng: Rng, of: Draws, slow: float, times: float) -> Times:
    """Draw times of which few queries of the candidate are many times as slow."""
    hard = rng.lognormal(13, 0.3, (of.n, of.trials))
    factor = np.where(rng.random((of.n, of.trials)) < (0.0 if of.equal else slow), times, 1.0)
    jitter = rng.lognormal(0, 0.02, (2, 4, of.n, of.trials))
    return Times(hard * jitter[0], hard * factor * jitter[1])


def started(rng: Rng, of: Draws, slow: float, times: float = 10.0) -> Times:
    """Draw times in four processes, each of which starts slow with this chance, for good.

    Of all calls, as many are that slow: more than the one in twenty that a p95 leaves out.
    """
    hard = rng.lognormal(13, 0.3, (of.n, of.trials))
    bad = rng.random((4, 1, of.trials)) < (0.0 if of.equal else slow)
    jitter = rng.lognormal(0, 0.02, (2, 4, of.n, of.trials))
    return Times(hard * jitter[0], hard * np.where(bad, times, 1.0) * jitter[1])


def failing(rng: Rng, of: Draws, each: int, part: int = 10) -> Failures:
    """Draw failures of whole known clusters, to which one query in ``part`` belongs.

    The others stand alone and are answered. The share that fails is expected to be the bound.
    """
    clusters = max(1, of.n // (part * each))
    at = np.arange(of.n)
    clustered = at < each * clusters
    chance = 0.0 if of.equal else UNANSWERED * of.n / (each * clusters)
    failed = (rng.random((clusters, of.trials)) < chance).repeat(each, axis=0)
    alone = np.zeros((of.n - each * clusters, of.trials), dtype=bool)
    return Failures(np.concatenate([failed, alone]), np.where(clustered, at // each, of.n + at))


HOUR, DAY, NIGHT = 3_600, 86_400, 13 * 3_600
BLOCK, SECONDS = 8, 225
"""Pairs of a block of half an hour, and the time between two."""
WELL, BOUND, ROBOT = 0.001, 0.01, 0.3
"""Failures of an equal candidate, the share that is allowed, and that of a robot's pairs."""


def traffic(rng: Rng, of: Draws, kind: str) -> Pairs:
    """Draw a log of so many blocks from 20:00 on, in which the candidate fails too often."""
    at = np.arange(of.n * BLOCK, dtype=np.float64) * SECONDS
    shape, client = (len(at), of.trials), np.arange(len(at)) % 997
    if of.equal:
        return Pairs(rng.random(shape) < WELL, at, client)
    if kind == "day":
        by_day = np.where(at % DAY < NIGHT, 0, 4 * BOUND)
        return Pairs(rng.random(shape) < by_day[:, None], at, client)
    if kind == "outages":
        starts = rng.random(shape) < BOUND * SECONDS / (HOUR / 3)
        last = np.where(starts, at[:, None] + rng.uniform(HOUR / 6, HOUR / 2, shape), -1.0)
        return Pairs(np.maximum.accumulate(last, axis=0) > at[:, None], at, client)
    visits = rng.random((math.ceil((at[-1] + 1) / HOUR), of.trials)) < BOUND / ROBOT
    robot = at % HOUR < ROBOT * HOUR
    failed = visits[(at // HOUR).astype(np.int64)] & robot[:, None]
    return Pairs(failed, at, np.where(robot, -1, client))


def clicks(rng: Rng, of: Draws, robots: int = 0) -> Clicks:
    """Draw users of five sessions that agree, and robots with a tenth of all; none prefers.

    Where a candidate is "equal" here, 65 of 100 users prefer it.
    """
    signs = np.where(rng.random((of.n, of.trials)) < (0.65 if of.equal else 0.5), 1, -1)
    signs, user = signs.repeat(5, axis=0), np.arange(of.n).repeat(5)
    if robots and not of.equal:
        more = max(1, 5 * of.n // 9)
        signs = np.concatenate([signs, np.ones((more, of.trials), dtype=signs.dtype)])
        user = np.concatenate([user, of.n + np.arange(more) % robots])
    return Clicks(signs, user)


BY_QUERY = Racing("p99", per_query=True)
FAMILIES = (
    *(
        Family("A.1", f"unjudged, {share:.0%} judged", Reading(), partial(unjudged, judged=share))
        for share in (0.9, 0.7, 0.5, 0.2)
    ),
    *(
        Family("A.2", f"paraphrases, groups of {each}", Mean(), draw, LEVEL, premise)
        for each in (2, 4, 8)
        for draw, premise in ((partial(paraphrases, each=each), "needs"),)
    ),
    *(
        Family("A.2", f"like words, groups of {each}", Mean(), draw)
        for each in (2, 4, 8)
        for draw in (partial(paraphrases, each=each, shown=True),)
    ),
    *(
        Family("A.2", f"rare clusters of {each}, stated", Mean(), partial(large, each=each))
        for each in (4, 8, 20)
    ),
    Family(
        "A.2", "rare clusters of 8", Mean(), partial(large, each=8, stated=False),
        premise="largest_cluster",
    ),
    Family("A.3", "rare total losses", Mean(), partial(paraphrases, each=1)),
    Family("A.3", "20 candidates", Shown(), candidates, OVERALL),
    Family("A.3", "a look each 25 queries", Looks(), looked_at, OVERALL),
    Family("A.3", "four looks", Looks(), partial(looked_at, looks=4), OVERALL),
    Family(
        "A.3", "a look at half-time, drift", Looks(), partial(looked_at, looks=2, drift=True),
        OVERALL, "drawn",
    ),
    *(
        Family("A.4", f"equal, {moved:.0%} move", Mean(), partial(independent, moved=moved))
        for moved in (0.0, 0.02, 0.1, 0.3, 0.6)
    ),
    *(
        Family("B.2", name, question, partial(race, slow=slow, times=times), premise=premise)
        for name, question, slow, times, premise in (
            ("0.2 % slow x1000, p99 by query", BY_QUERY, 0.002, 1e3, "slowest"),
            ("1.0 % slow x1000, p99 by query", BY_QUERY, 0.01, 1e3, ""),
            ("5.2 % slow x10, p95", Racing("p95"), 0.052, 10.0, ""),
        )
    ),
    *(
        Family("C.1", name, Live(), partial(traffic, kind=kind), LIVE_LEVEL)
        for kind, name in (
            ("day", "none by night, 4 % by day"),
            ("outages", "outages of 10 to 30 min"),
            ("robot", "a robot with 30 % of the pairs"),
        )
    ),
    Family("C.2", "five agreeing sessions a user", Clicking(), clicks, 2 * LEVEL),
    Family(
        "C.2", "a robot, a tenth of the sessions", Clicking(), partial(clicks, robots=1), 2 * LEVEL,
    ),
    Family("R.1", "failures in known groups of 8", Failing(), partial(failing, each=8)),
    Family(
        "R.2", "one start in eight slow x10, p95", Racing("p95"), partial(started, slow=1 / 8),
        premise="starts",
    ),
    Family("R.3", "20 slices, a policy each, one run", Shown(), candidates, OVERALL),
)  # fmt: skip
