"""Tables of quality, agreement, queries and provenance, and lines on how evidence was kept."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby
from operator import itemgetter

import numpy as np

from harness.core.engine import IMPORTED
from harness.core.errors import SHOWN
from harness.core.evidence import ArmResult, Evidence
from harness.core.printable import counted, one_line
from harness.core.run import Status
from harness.core.scores import Estimate, Paired, Scores
from harness.corpus.tuning import Leak
from harness.measures.decompose import decompose
from harness.measures.missing_judgements import judged_by_relevance, missing
from harness.measures.name import span_of
from harness.measures.ties import count_ties
from harness.report.doc import (
    NOT_MEASURED,
    Block,
    Cell,
    Num,
    TableBlock,
    Text,
    Value,
    measured,
    row,
    table,
)
from harness.report.html import explore_link
from harness.report.inputs import Custody, JudgementCoverage, ReportInput
from harness.report.page.cards import paired
from harness.report.rounding import minute, percent, share, signed


def measures_of(means: Mapping[str, Mapping[str, Estimate]], first: str) -> tuple[str, ...]:
    """List all measures, ``first`` in front, the others as they came."""
    found = dict.fromkeys(measure for row in means.values() for measure in row)
    return tuple(sorted(found, key=lambda measure: measure != first))


def best_first(means: Mapping[str, Mapping[str, Estimate]], measure: str) -> tuple[str, ...]:
    """Order arms by their mean, those without one last, equals by name."""

    def place(arm: str) -> tuple[bool, float, str]:
        found = means[arm].get(measure)
        return (found is None, -found.value if found else 0.0, arm)

    return tuple(sorted(means, key=place))


def usual_n(rows: Iterable[Mapping[str, Estimate]]) -> int | None:
    """Find the number of queries behind most means; None without means."""
    counts = Counter(found.n for row in rows for found in row.values())
    return counts.most_common(1)[0][0] if counts else None


def _over(n: int | None) -> str:
    return "" if n is None else f" (n = {n:,} unless a cell says otherwise)"


def _mean(estimate: Estimate | None, usual: int | None, *, signed: bool = False) -> Value:
    """Show a level or a difference, its interval, and n where it is not the usual one."""
    return measured(estimate, n=estimate is not None and estimate.n != usual, signed=signed)


def answered(side: ArmResult | None) -> str:
    """Describe how an arm's queries ended; what there is none of is left out."""
    if side is None:
        return NOT_MEASURED
    words = {
        Status.ANSWERED: "answered",
        Status.FAILED: "failed",
        Status.TIMED_OUT: "timed out",
        Status.NOT_ASKED: "not asked",
    }
    parts = [f"{count:,} {word}" for s, word in words.items() if (count := side.run.count(s))]
    if error := next(filter(None, side.run.errors), ""):
        parts.append(f"the first with {one_line(error, SHOWN)}")
    if side.run.repeated:
        parts.append(side.run.repeated)
    repeated = int(side.run.duplicates.sum())
    if repeated:
        parts.append(f"{counted(repeated, 'hit')} shown twice")
    if side.manifest.engine == IMPORTED and (ties := count_ties(side.run)).tied:
        parts.append(f"{share(ties.tied, ties.hits)} of its hits tie with another")
    return ", ".join(parts) or "no query"


def leaderboard(report: ReportInput) -> TableBlock:
    """Show all arms with the mean of every measure, best first."""
    measures = measures_of(report.means, report.measure)
    means = {arm: report.means.get(arm, {}) for arm in {**report.arms, **report.means}}
    usual = usual_n(means.values())
    return table(
        f"Quality of every arm{_over(usual)}",
        ("arm", *measures, "queries"),
        (
            (arm, *(_mean(means[arm].get(measure), usual) for measure in measures),
             answered(report.arms.get(arm)))
            for arm in best_first(means, report.measure)
        ),
    )  # fmt: skip


def differences(report: ReportInput) -> TableBlock:
    """Show every measure's difference in every comparison."""
    measures = measures_of(report.differences, report.measure)
    usual = usual_n(report.differences.values())
    rows = []
    for name, evidence in report.evidence.items():
        found = report.differences.get(name, {})
        means = (_mean(found.get(measure), usual, signed=True) for measure in measures)
        rows.append((Cell(name, f"{evidence.control.arm} → {evidence.candidate.arm}"), *means))
    return table(f"Candidate minus control{_over(usual)}", ("comparison", *measures), rows)


def _agreement(found: Scores | None) -> Value:
    if found is None:
        return Cell(NOT_MEASURED)
    without = sum(len(ids) for ids in found.undefined.values())
    more = f"n {len(found.query_ids):,}" + (f", {without:,} undefined" if without else "")
    if found.mean is None:
        return Cell("not defined for any query", more)
    return Num(found.mean, more=more)


def agreement(evidence: Evidence) -> TableBlock:
    """Show the means of each agreement of the candidate beside control against control."""
    here, twice = evidence.agreement.scores, evidence.noise.scores
    return table(
        "Agreement with the control",
        ("mean of", "candidate", "A/A (control twice)"),
        ((name, _agreement(here.get(name)), _agreement(twice.get(name)))
         for name in dict.fromkeys([*here, *twice])),
    )  # fmt: skip


def classes(evidence: Evidence) -> TableBlock:
    """Count how many queries fall into each class, beside control against control."""
    found, noise = Counter(evidence.agreement.classes), Counter(evidence.noise.classes)

    def cell(of: Counter[str], name: str) -> Value:
        if not of[name]:
            return Cell("none")
        return Num(of[name], "count", more=share(of[name], of.total()))

    names = sorted(found | noise, key=lambda name: (-found[name], name))
    return table(
        "Queries by class",
        ("class", "candidate", "A/A (control twice)"),
        ((name, cell(found, name), cell(noise, name)) for name in names),
    )


def provenance(report: ReportInput) -> tuple[tuple[str, str], ...]:
    """Return pairs of what and value, in the order of reading."""
    of = report.provenance
    counts, sha256 = of.counts, of.sha256
    judged = f"{len(report.qrels.answerable):,} with a relevant document"
    negative = f"{len(report.qrels.negative):,} negative"
    policy = report.policy
    known = sorted({*of.replayed_at.values()})
    replayed = " to ".join(dict.fromkeys((known[0], known[-1]))) if known else "not known"
    return (
        ("dataset", report.dataset),
        ("source", of.source),
        ("licence", of.licence),
        ("documents", f"{counts.documents:,} (sha256 {sha256.corpus})"),
        ("searched in", " and ".join(of.fields)),
        ("queries", f"{counts.queries:,}: {judged}, {negative} (sha256 {sha256.queries})"),
        ("judgements", f"{counts.judgements:,} (sha256 {sha256.qrels})"),
        (
            "policy",
            f"{policy.name} {policy.version} (sha256 {policy.sha256})" if policy else "none",
        ),
        ("code", of.code_version),
        ("seed", str(of.seed)),
        ("Python", of.python),
        ("packages", ", ".join(f"{name} {v}" for name, v in sorted(of.packages.items()))),
        ("machine", of.machine),
        ("replayed at", replayed),
        ("decided at", of.decided_at),
        ("valid until", of.expires_at or "no end is set"),
    )


def manifests(report: ReportInput) -> TableBlock:
    """Return who each arm is."""
    header = ("arm", "engine", "documents", "settings sha256", "fingerprint")
    rows = (
        row(arm, f"{of.engine} {of.version}", of.documents, of.settings_sha256, of.fingerprint)
        for arm, of in sorted(report.provenance.arms.items())
    )
    return TableBlock("What each arm is made from", header, tuple(rows), "facts")


def by_slice(report: ReportInput) -> TableBlock:
    """Show the first measure of every arm in every slice, arms in the leaderboard's order."""
    arms = best_first(report.means, report.measure)
    return table(
        f"{report.measure} by slice",
        ("slice", *arms),
        (
            (name, *(_mean(means.get(arm, {}).get(report.measure), None) for arm in arms))
            for name, means in sorted(report.slice_means.items())
        ),
    )


def slice_differences(report: ReportInput) -> TableBlock:
    """Show the first measure's difference in every slice, a column a comparison."""
    found = report.slice_differences
    sides = {name: each for name, each in report.evidence.items() if name in found}
    return table(
        f"Candidate minus control by slice, {report.measure}",
        ("slice", *(f"{e.control.arm} → {e.candidate.arm}" for e in sides.values())),
        (
            (part, *(_mean(found[name].get(part), None, signed=True) for name in sides))
            for part in sorted({name for row in found.values() for name in row})
        ),
    )


def traffic(report: ReportInput) -> TableBlock:
    """Show both means of each arm and of each comparison; no row without a sample of a log."""
    measure, found = report.measure, report.traffic
    pairs = {f"{e.control.arm}~{e.candidate.arm}": name for name, e in report.evidence.items()}
    levels = {arm: means.get(measure) for arm, means in report.means.items()}
    moved = {key: report.differences.get(name, {}).get(measure) for key, name in pairs.items()}
    return table(
        f"{measure} over the requests of the log, and over the sampled queries",
        ("arm or comparison", "mean over the traffic", "share of the requests",
         "plain mean, as the gates judge it"),
        (
            (key.replace("~", " → "), _mean(found[key].estimate, None, signed=of is moved),
             percent(found[key].share), _mean(plain, None, signed=of is moved))
            for of in (levels, moved)
            for key, plain in of.items()
            if key in found
        ),
    )  # fmt: skip


JUDGED, ALIKE = "Judged@10", "Jaccard@10"


def unjudged(report: ReportInput) -> TableBlock:
    """Show each difference, and its bounds over what is not judged."""
    found = {name: (each, paired(each, report.measure)) for name, each in report.evidence.items()}
    return table(
        "What unjudged documents leave open, candidate minus control",
        ("comparison", f"control's {JUDGED}", f"candidate's {JUDGED}", report.measure,
         "whatever is not judged"),
        (
            (
                Cell(name, f"{evidence.control.arm} → {evidence.candidate.arm}"),
                _judged(evidence.control), _judged(evidence.candidate),
                Num(float(pairs.difference.mean()), signed=True),
                _bounds(report, evidence, pairs),
            )
            for name, (evidence, pairs) in found.items()
            if pairs and pairs.query_ids
        ),
    )  # fmt: skip


def _judged(side: ArmResult) -> Value:
    scores = side.scores.get(JUDGED)
    return Cell(NOT_MEASURED) if scores is None else Num(scores.mean)


def _bounds(report: ReportInput, evidence: Evidence, pairs: Paired) -> Cell:
    if evidence.complete:
        return Cell("nothing: its judgements are complete", evidence.complete)
    if span_of(report.measure) is None or not judged_by_relevance(report.measure):
        return Cell(f"{report.measure} has no bounds")
    runs = evidence.control.run, evidence.candidate.run
    found = missing(*runs, report.qrels, report.measure).of(pairs.query_ids)
    measured = pairs.difference
    ends = (
        float(np.where(found.counts > 0, end, measured).mean()) for end in (found.worst, found.best)
    )
    note = "" if found.exact else "outer bounds, not reached"
    return Cell(" to ".join(map(signed, ends)), note)


DEPTH = 10
"""Ranks shown of each arm."""
DIGITS = 12
"""After which a part of a difference is rounding."""
TITLE = 120
SNIPPET = 180
QUERY = 400
"""Longest texts shown, in characters."""


def furthest(pairs: Paired, limit: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Query ids that lost most and that gained most, at most ``limit`` each; equals by id."""
    found = sorted(zip(pairs.difference.tolist(), pairs.query_ids, strict=True))
    worse = [query_id for difference, query_id in found if difference < 0]
    better = [(-difference, query_id) for difference, query_id in found if difference > 0]
    return tuple(worse[:limit]), tuple(query_id for _, query_id in sorted(better)[:limit])


def move(rank: int, other: int | None, *, candidate: bool) -> str:
    """Return where a hit of one arm went, or came from: ``other`` is its rank in the other arm."""
    if other is None:
        return "new" if candidate else "gone"
    by = other - rank if candidate else rank - other
    if by == 0:
        return "same"
    return f"up {by}" if by > 0 else f"down {-by}"


def instead_of(status: Status, error: str) -> str:
    """Describe what stands where a query ended so and shows no hit."""
    match status:
        case Status.ANSWERED:
            return "found nothing"
        case Status.FAILED:
            return one_line(f"failed: {error or 'no reason given'}", QUERY)
        case Status.TIMED_OUT:
            return "timed out"
        case _:
            return "was not asked"


def movers(report: ReportInput, name: str, limit: int) -> Iterator[Block]:
    """Yield the queries that lost most and gained most, at most ``limit`` each, or why none."""
    evidence = report.evidence[name]
    pairs = paired(evidence, report.measure)
    if pairs is None or not len(pairs.difference):
        yield Text(f"No query has a value of {report.measure} in both arms.", "instead")
        return
    worse, better = furthest(pairs, limit)
    for what, ids in (("lost", worse), ("gained", better)):
        if ids:
            yield _moved(f"Queries that {what} most: {name}", report, evidence, pairs, ids)
    if not worse:
        did = "lost" if better else "moved in"
        yield Text(f"No query {did} {report.measure}.", "instead")


def _moved(
    caption: str, report: ReportInput, evidence: Evidence, pairs: Paired, ids: Sequence[str]
) -> TableBlock:
    """Show queries with their parts: of documents that entered or left, and of the order."""
    arms = evidence.control, evidence.candidate
    parts = decompose(arms[0].run, arms[1].run, report.qrels, report.measure, tuple(ids))
    link = partial(explore_link, report.dataset, arms[0].arm, arms[1].arm)
    at = {query_id: row for row, query_id in enumerate(pairs.query_ids)}
    rows: list[tuple[Value, ...]] = []
    for number, query_id in enumerate(ids):
        query, row = report.queries[query_id], at[query_id]
        apart = float(pairs.control[row]), float(pairs.candidate[row])
        shown, order = (float(of[number].round(DIGITS)) for of in (parts.shown, parts.order))
        rows.append((
            Cell(one_line(query.text, QUERY), query_id, href=link(query_id)),
            Cell(", ".join(query.slices)),
            *map(Num, apart),
            *(Num(by, signed=True) for by in (apart[1] - apart[0], shown, order)),
        ))  # fmt: skip
    header = ("query", "slices", "control", "candidate", "difference", "documents", "order")
    return TableBlock(caption, header, tuple(rows))


ORDINALS = {1: "first", 2: "second", 3: "third"}


def kept_lines(found: Custody) -> Iterator[str]:
    """Yield how evidence was kept, for the first screen."""
    yield _coverage(found.coverage)
    yield _pin(found)
    yield from (_tuned(leak, found.tuned_reason) for leak in found.tuned)
    if found.since:
        said = "; ".join(found.since.changes)
        yield f"Since the decision of {minute(found.since.at)}, the last on other evidence: {said}."
    if found.unprobed:
        named = ", ".join(found.unprobed)
        yield f"Identity of {named} is self-reported: its index was not verified."
    if found.raced:
        yield "Times are taken as the file of the race states them; they cannot be derived again."
    again_at = {step: one for step, one in found.looks.items() if one.attempts > 1 or one.before}
    for step, one in again_at.items():
        races = f", {one.unjudged} of them races that no gate judged" if one.unjudged else ""
        resumed = f"; races resumed after a stop: {one.resumed}" if one.resumed else ""
        kinds = f"{one.untimed} at results, {one.timed} at times{races}; the larger counts{resumed}"
        earlier = f" Earlier outcomes: {_outcomes(one.before)}." if one.before else ""
        since = f" Changed since the last look: {'; '.join(one.since)}." if one.since else ""
        yield f"{step}: {_ordinal(one.attempts)} look ({kinds}).{earlier}{since}"
    if not again_at:
        yield "Every step is judged for the first time."
    if not again_at and found.earlier:
        before = "; ".join(found.earlier)
        yield f"Earlier in the experiment log, of which this is line {found.number}: {before}."
    if found.number == 1:
        yield "The experiment log begins here, so nothing is known of earlier decisions."


def _pin(found: Custody) -> str:
    pin = found.pin
    if pin.differences:
        return f"NOT AS PINNED on {pin.pinned_at}: {'; '.join(pin.differences)}."
    if pin.pinned_at:
        again = f" ({_ordinal(pin.times)} pin)" if pin.times > 1 else ""
        return f"As pinned on {pin.pinned_at}{again}: queries, judgements and race settings."
    if found.pinned_names:
        return (
            "Query set not pinned under this name: the policy has pins of"
            f" {', '.join(found.pinned_names)}. Pins go by the data's name: rename the folder,"
            f" or pin it: {pin.command}"
        )
    return f"Query set not pinned: removed queries would go unnoticed. Pin it: {pin.command}"


def _tuned(leak: Leak, reason: str) -> str:
    if not leak.seen:
        on = ", ".join(leak.collections)
        return f"{leak.arm} was tuned on {on}, and on none of these queries."
    if reason:
        return f"Allowed by the policy: {leak.said}. Its reason: {reason}."
    return f"INVALID: {leak.said}."


def _coverage(of: JudgementCoverage) -> str:
    said = f"{counted(of.queries, 'query')}, all of them judged"
    if of.unjudged:
        share = percent(of.unjudged / of.queries)
        have = "has" if of.unjudged == 1 else "have"
        said = f"{counted(of.queries, 'query')}: {of.unjudged:,} ({share}) {have} no judgement"
    if of.negative:
        said += f"; {counted(of.negative, 'has')} no relevant document"
    if of.strangers:
        said += f"; {counted(of.strangers, 'judged query is')} not in the query set"
    if of.left_out:
        given = of.queries + of.left_out
        said += f"; without a judgement, and so left out: {of.left_out:,} of {given:,} queries"
    if of.own:
        said += (
            f"; {counted(of.own, 'query is')} also in the corpus: hits of its own id are left out"
        )
    for arm, count in of.unanswered.items():
        said += f"; {arm} left {count:,} unanswered"
    return f"{said}."


def _outcomes(before: Sequence[tuple[str, str]]) -> str:
    """List outcomes from the oldest on; those that follow each other unchanged stand as one."""
    return ", ".join(
        f"{outcome} {len(days)} times, last on {days[-1]}"
        if len(days) > 1
        else f"{outcome} on {days[0]}"
        for outcome, each in groupby(before, key=itemgetter(1))
        if (days := [day for day, _ in each])
    )


def _ordinal(count: int) -> str:
    return ORDINALS.get(count, f"{count}th")
