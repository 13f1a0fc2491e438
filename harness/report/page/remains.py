"""What remains to be done for a step, in full and once, whatever number of gates ask for it."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from harness.core.gate import Finding, Outcome, StepDecision, Verdict
from harness.core.printable import counted

NO_HELP = re.compile(r"more queries will (?:hardly|not) help")
HOPELESS = "another candidate, or another bound and its reason: more queries will hardly help"
SLICE = re.compile(r"\(([\d,]{1,15}) of ([\d,]{1,15}) queries\)")
MORE = re.compile(r"(?<![\d,])([\d,]{1,15}) more (?:\w{1,30} )?quer(?:y|ies)\b")
QUERIES = re.compile(r"(?<![\d,])([\d,]{1,15}) (?:\w{1,30} )?quer(?:y|ies)\b")
NOW = re.compile(r"\(now ([\d,]{1,15})\)")
POOL = re.compile(r"judge [^:]{0,200}: (harness pool [^;]*? --size (\d{1,15}) --out \S{1,100})")
SIZE = re.compile(r" --size \d{1,15}")


@dataclass(frozen=True, slots=True)
class RemainingWork:
    """One thing that remains."""

    words: str
    commands: tuple[str, ...] = ()
    """What to type for it, where the words have no room for that."""


@dataclass(frozen=True, slots=True)
class _Queries:
    """Queries that one gate asks for, and those that it has."""

    gate: str
    needed: int
    now: int

    @property
    def times(self) -> float:
        """How many times as many it needs: gates on a slice and on all queries compare by it."""
        return self.needed / max(self.now, 1)


def remains(decision: StepDecision, queries: int) -> tuple[RemainingWork, ...]:
    """Return all that a step needs; ``queries`` is the size of the query set.

    It is the largest need for queries of all open gates, each sample to be judged, and each other
    remedy. No number of queries stands beside a gate that more queries hardly help.
    """
    needs = tuple(_remains(decision, queries))
    before = (
        (RemainingWork(f"the step {decision.blocked_by} first"),) if decision.blocked_by else ()
    )
    return (*needs, *before)


def hardest(blocking: Sequence[Finding]) -> Finding:
    """Return the first gate that fails, or the open one with the largest need of queries."""
    failed = [one for one in blocking if one.verdict is Verdict.FAIL]
    if failed:
        return failed[0]
    return max(blocking, key=lambda one: _times(_queries(one, 0)) if one.estimate else 0.0)


def _remains(decision: StepDecision, queries: int) -> Iterator[RemainingWork]:
    failed = [one.gate for one in decision.findings if one.verdict is Verdict.FAIL]
    if decision.outcome is Outcome.ROLLBACK:
        yield RemainingWork("take the step back")
        return
    if failed:
        rest = f" and {len(failed) - 1} more" if failed[1:] else ""
        yield RemainingWork(f"a candidate that passes {failed[0]}{rest}")
        return
    open_ = [one for one in decision.findings if one.verdict is Verdict.INCONCLUSIVE]
    if any(NO_HELP.search(one.remedy) for one in open_):
        yield RemainingWork(HOPELESS)
        return
    if most := max((_queries(one, queries) for one in open_), key=_times, default=None):
        yield RemainingWork(_said(most, queries))
    if samples := _samples(one.remedy for one in open_):
        yield _judged(samples)
    yield from map(RemainingWork, dict.fromkeys(_others(open_)))


def _queries(finding: Finding, queries: int) -> _Queries | None:
    """Read how many queries a gate asks for; None where it asks for none."""
    remedy = "" if finding.timed else finding.remedy
    asked = [
        _Queries(finding.gate, _whole(needed), _whole(now)) for now, needed in SLICE.findall(remedy)
    ]
    rest = SLICE.sub("", remedy)
    said = NOW.search(rest)
    known = finding.estimate.n if finding.estimate else queries
    now = _whole(said.group(1)) if said else known
    asked += [_Queries(finding.gate, now + _whole(more), now) for more in MORE.findall(rest)]
    asked += [_Queries(finding.gate, _whole(all_), now) for all_ in QUERIES.findall(rest)]
    return max(asked, key=_times, default=None)


def _times(found: _Queries | None) -> float:
    return found.times if found else 0.0


def _whole(digits: str) -> int:
    return int(digits.replace(",", "") or 0)


def _said(most: _Queries, queries: int) -> str:
    if most.now == queries:
        return f"about {counted(most.needed, 'query')} like these (now {queries:,})"
    every = math.ceil(most.times * queries)
    return (
        f"about {counted(every, 'query')} like these (now {queries:,}), {most.needed:,} of them for"
        f" {most.gate} (now {most.now:,})"
    )


def _samples(remedies: Iterable[str]) -> Mapping[str, int]:
    """Return the size of each sample by its command; a larger one holds a smaller one."""
    largest: dict[str, tuple[int, str]] = {}
    for remedy in remedies:
        for command, size in POOL.findall(remedy):
            kind = SIZE.sub("", command)
            largest[kind] = max(largest.get(kind, (0, "")), (int(size), command))
    return {command: size for size, command in sorted(largest.values(), reverse=True)}


def _judged(samples: Mapping[str, int]) -> RemainingWork:
    sizes = [f"{size:,}" for size in samples.values()]
    what = f"judged samples of {listed(sizes)} unjudged hits"
    if len(sizes) == 1:
        what = f"a judged sample of {counted(next(iter(samples.values())), 'unjudged hit')}"
    return RemainingWork(f"{what} (enough if none is relevant)", tuple(samples))


def _others(open_: Sequence[Finding]) -> Iterator[str]:
    """Yield remedies that ask for neither queries nor a sample."""
    for one in open_:
        if one.remedy and not POOL.search(one.remedy) and _queries(one, 1) is None:
            yield one.remedy.removesuffix(".")


def listed(names: Iterable[str]) -> str:
    """Join names as in a sentence."""
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last
