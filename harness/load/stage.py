"""Command ``load``: an open-loop load test at fixed arrival rates, and its evidence."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

from harness.core.errors import EvidenceError
from harness.core.files import held, write_text
from harness.core.gate import Verdict
from harness.core.progress import progress
from harness.load.files import page_of, parts_of
from harness.load.page import to_page
from harness.load.rates import Highest, highest_rate, trials_an_end
from harness.load.trial import LoadReport
from harness.load.trials import SEARCH, Loading, LoadRequest
from harness.pipeline.experiments import note_timed
from harness.pipeline.layout import Layout
from harness.pipeline.params import LoadParams

PERCENT = 99.0
"""Of the arrivals that must be answered within the budget."""
FEWEST_ARRIVALS = 100
"""Of a trial in a search: with fewer, one slow answer is more than one in a hundred."""
RETRIES = 2
"""How often a trial that says nothing is run again."""
BISECTION = 8
"""Trials of a search beside those that confirm its ends, for the progress bar."""


def load(
    layout: Layout, wanted: LoadRequest, cache: Path, params: LoadParams, time_limit_s: float
) -> LoadReport:
    """Try every arm at every rate, round by round, and look for highest rates where asked.

    Trials are kept one by one, so an interrupted load test resumes; when it is done they
    are added to the history, and the page is written.
    Two loads take turns: they would remove each other's trials, and load each other's machine.
    """
    with held(parts_of(layout)):
        loading = Loading(layout, wanted, cache, params, time_limit_s)
        _curve(loading)
        highest = _search_all(loading) if wanted.budget_ns is not None else {}
        report = loading.report(highest)
        loading.finish()
        note_timed(layout, "load", tuple(loading.arms), datetime.now(UTC))
        write_text(page_of(layout), to_page(report))
        return report


def verdict(report: LoadReport) -> Verdict:
    """Return whether what was measured may be believed, and found.

    INCONCLUSIVE where the control is not like itself, a trial did not count or a search was too
    noisy; FAIL where no rate keeps the budget.
    """
    said = [one.verdict for one in report.noise.values()]
    said += [one.verdict for one in report.highest.values()]
    if Verdict.FAIL in said:
        return Verdict.FAIL
    quiet = report.noise and not any(point.objections for point in report.points)
    return Verdict.INCONCLUSIVE if Verdict.INCONCLUSIVE in said or not quiet else Verdict.PASS


def _curve(loading: Loading) -> None:
    """Run all rounds: in each the closed loop and every rate, of every arm in seeded order."""
    rates = (None, *loading.rates())
    rounds = loading.params.rounds
    each = len(loading.entrants(0, None))
    with progress("loading", rounds * len(rates) * each) as advance:
        for number in range(rounds):
            for rate in rates:
                for arm, twin in loading.entrants(number, rate):
                    record = loading.trial(arm, rate, number, twin=twin)
                    if record.trial.strays:
                        raise EvidenceError(
                            f"{arm}: {record.trial.strays} of {record.trial.arrivals} answers were"
                            " not those of its run, so its times mean nothing. Run:"
                            f" harness stage replay --arm {arm}, and look whether it answers alike"
                            " twice"
                        )
                    advance(1)


def _search_all(loading: Loading) -> Mapping[str, Highest]:
    report = loading.report({})
    loud = [one.reason for one in report.noise.values() if one.verdict is not Verdict.PASS]
    if loud or not report.noise:
        reason = "; ".join(loud) or "no round of the control against itself counts"
        unknown = Highest(Verdict.INCONCLUSIVE, f"the machine is too noisy: {reason}", None, ())
        return dict.fromkeys(loading.arms, unknown)
    return {arm: _search(loading, arm) for arm in loading.arms}


def _search(loading: Loading, arm: str) -> Highest:
    params, budget_ns = loading.params, loading.wanted.budget_ns or 0
    capacity = median(loading.trial(arm, None, n).trial.rate for n in range(params.rounds))
    total = 2 * trials_an_end(params.confidence) + BISECTION
    with progress(f"searching {arm}", total) as advance:
        return highest_rate(
            _probe(loading, arm, budget_ns, advance),
            capacity=capacity,
            floor=FEWEST_ARRIVALS / params.seconds,
            resolution=params.resolution,
            confidence=params.confidence,
            retries=RETRIES,
        )


def _probe(
    loading: Loading, arm: str, budget_ns: int, advance: Callable[[int], object]
) -> Callable[[float], bool | None]:
    count = iter(range(10_000))

    def probe(rate: float) -> bool | None:
        record = loading.trial(arm, rate, next(count), purpose=SEARCH)
        advance(1)
        if record.trial.strays:
            return None
        kept = record.trial.keeps(budget_ns, PERCENT)
        late = record.objection(loading.params.max_lag)
        return None if late and not kept else kept

    return probe
