"""Quality, agreement and latency as rows of words, shared by the page and the Markdown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from harness.core.engine import IMPORTED
from harness.core.errors import SHOWN
from harness.core.evidence import Agreement, ArmResult, Evidence
from harness.core.printable import counted, one_line
from harness.core.run import Status
from harness.core.scores import Estimate, Paired, Scores
from harness.measures.missing_judgements import condense, judged_by_relevance, missing
from harness.measures.name import span_of
from harness.measures.quality import score
from harness.measures.ties import count_ties
from harness.report.doc import Cell, Table
from harness.report.inputs import ReportInput
from harness.report.page.cards import paired
from harness.report.rounding import interval, number, percent, share, signed
from harness.stats.interval import TrafficMean

NOT_MEASURED = "not measured"


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


def mean_cell(estimate: Estimate | None, usual: int | None) -> Cell:
    """Write a level and its interval, and n where it is not the usual one."""
    if estimate is None:
        return Cell(NOT_MEASURED)
    return Cell(number(estimate.value), _sure(estimate, usual))


def difference_cell(estimate: Estimate | None, usual: int | None) -> Cell:
    """Write a difference and its interval, and n where it is not the usual one."""
    if estimate is None:
        return Cell(NOT_MEASURED)
    return Cell(signed(estimate.value), _sure(estimate, usual))


def _sure(estimate: Estimate, usual: int | None) -> str:
    return interval(estimate) if estimate.n == usual else f"{interval(estimate)}, n {estimate.n:,}"


def answered(side: ArmResult | None) -> str:
    """Say how an arm's queries ended; what there is none of is left out."""
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


def leaderboard(report: ReportInput) -> Table:
    """Show all arms with the mean of every measure, best first."""
    measures = measures_of(report.means, report.measure)
    means = {arm: report.means.get(arm, {}) for arm in {**report.arms, **report.means}}
    usual = usual_n(means.values())
    rows = tuple(
        (
            Cell(arm),
            *(mean_cell(means[arm].get(measure), usual) for measure in measures),
            Cell(answered(report.arms.get(arm))),
        )
        for arm in best_first(means, report.measure)
    )
    return Table(f"Quality of every arm{_over(usual)}", ("arm", *measures, "queries"), rows)


def differences(report: ReportInput) -> Table:
    """Show every measure's difference in every comparison."""
    measures = measures_of(report.differences, report.measure)
    usual = usual_n(report.differences.values())
    rows = tuple(
        (
            Cell(name, f"{evidence.control.arm} → {evidence.candidate.arm}"),
            *(difference_cell(report.differences.get(name, {}).get(m), usual) for m in measures),
        )
        for name, evidence in report.evidence.items()
    )
    return Table(f"Candidate minus control{_over(usual)}", ("comparison", *measures), rows)


def _agreement(found: Scores | None) -> Cell:
    if found is None:
        return Cell(NOT_MEASURED)
    without = sum(len(ids) for ids in found.undefined.values())
    note = f"n {len(found.query_ids):,}" + (f", {without:,} undefined" if without else "")
    return Cell("not defined for any query" if found.mean is None else number(found.mean), note)


def agreement(evidence: Evidence) -> Table:
    """Show the means of each agreement of the candidate beside control against control."""
    names = dict.fromkeys([*evidence.agreement.scores, *evidence.noise.scores])
    rows = tuple(
        (
            Cell(name),
            _agreement(evidence.agreement.scores.get(name)),
            _agreement(evidence.noise.scores.get(name)),
        )
        for name in names
    )
    return Table(
        "Agreement with the control", ("mean of", "candidate", "A/A (control twice)"), rows
    )


def classes(evidence: Evidence) -> Table:
    """Count how many queries fall into each class, beside control against control."""

    def count(of: Agreement) -> Counter[str]:
        return Counter(of.classes)

    found, noise = count(evidence.agreement), count(evidence.noise)
    names = sorted(found | noise, key=lambda name: (-found[name], name))

    def cell(of: Counter[str], name: str) -> Cell:
        return Cell(f"{of[name]:,}", share(of[name], of.total())) if of[name] else Cell("none")

    rows = tuple((Cell(name), cell(found, name), cell(noise, name)) for name in names)
    return Table("Queries by class", ("class", "candidate", "A/A (control twice)"), rows)


def provenance(report: ReportInput) -> tuple[tuple[str, str], ...]:
    """Give pairs of what and value, in the order of reading."""
    of = report.provenance
    judged = f"{len(report.qrels.answerable):,} with a relevant document"
    negative = f"{len(report.qrels.negative):,} negative"
    policy = report.policy
    rows: Sequence[tuple[str, str]] = (
        ("dataset", of.dataset),
        ("source", of.source),
        ("licence", of.licence),
        ("documents", f"{of.documents:,} (sha256 {of.corpus_sha256})"),
        ("searched in", " and ".join(of.fields)),
        ("queries", f"{of.queries:,}: {judged}, {negative} (sha256 {of.queries_sha256})"),
        ("judgements", f"{of.judgements:,} (sha256 {of.qrels_sha256})"),
        (
            "policy",
            f"{policy.name} {policy.version} (sha256 {policy.sha256})" if policy else "none",
        ),
        ("code", of.code_version),
        ("seed", str(of.seed)),
        ("Python", of.python),
        ("packages", ", ".join(f"{name} {v}" for name, v in sorted(of.packages.items()))),
        ("machine", of.machine),
        ("replayed at", _between(of.replayed_at.values())),
        ("decided at", of.decided_at),
        ("valid until", of.expires_at or "no end is set"),
    )
    return tuple(rows)


def _between(times: Iterable[str]) -> str:
    """Name the oldest and the newest time."""
    known = sorted(times)
    if not known:
        return "not known"
    return known[0] if known[0] == known[-1] else f"{known[0]} to {known[-1]}"


def manifests(report: ReportInput) -> Table:
    """Say who each arm is."""
    rows = tuple(
        (
            Cell(arm),
            Cell(f"{found.engine} {found.version}"),
            Cell(f"{found.documents:,}"),
            Cell(found.settings_sha256),
            Cell(found.fingerprint),
        )
        for arm, found in sorted(report.provenance.manifests.items())
    )
    header = ("arm", "engine", "documents", "settings sha256", "fingerprint")
    return Table("What each arm is made from", header, rows)


def by_slice(report: ReportInput) -> Table:
    """Show the first measure of every arm in every slice, arms in the leaderboard's order."""
    arms = best_first(report.means, report.measure)
    rows = tuple(
        (Cell(name), *(mean_cell(means.get(arm, {}).get(report.measure), None) for arm in arms))
        for name, means in sorted(report.slice_means.items())
    )
    return Table(f"{report.measure} by slice", ("slice", *arms), rows)


def slice_differences(report: ReportInput) -> Table:
    """Show the first measure's difference in every slice, a column a comparison."""
    names = tuple(name for name in report.evidence if name in report.slice_differences)
    slices = sorted({name for row in report.slice_differences.values() for name in row})
    rows = tuple((Cell(part), *(_cell(report, name, part) for name in names)) for part in slices)
    sides = (report.evidence[name] for name in names)
    header = (f"{e.control.arm} → {e.candidate.arm}" for e in sides)
    caption = f"Candidate minus control by slice, {report.measure}"
    return Table(caption, ("slice", *header), rows)


def _cell(report: ReportInput, name: str, part: str) -> Cell:
    return difference_cell(report.slice_differences[name].get(part), None)


def traffic(report: ReportInput) -> Table:
    """Show both means of each arm and of each comparison; no row without a sample of a log."""
    measure, found = report.measure, report.traffic
    arms = [
        (
            Cell(arm),
            mean_cell(found[arm].estimate, None),
            _share(found[arm]),
            mean_cell(means.get(measure), None),
        )
        for arm, means in report.means.items()
        if arm in found
    ]
    pairs = {f"{e.control.arm}~{e.candidate.arm}": name for name, e in report.evidence.items()}
    differences = [
        (
            Cell(key.replace("~", " → ")),
            difference_cell(found[key].estimate, None),
            _share(found[key]),
            difference_cell(report.differences.get(name, {}).get(measure), None),
        )
        for key, name in pairs.items()
        if key in found
    ]
    header = (
        "arm or comparison", "mean over the traffic", "share of the requests",
        "plain mean, as the gates judge it",
    )  # fmt: skip
    caption = f"{measure} over the requests of the log, and over the sampled queries"
    return Table(caption, header, (*arms, *differences))


def _share(found: TrafficMean) -> Cell:
    return Cell(percent(found.share))


JUDGED = "Judged@10"


def unjudged(report: ReportInput) -> Table:
    """Show each difference beside what it would be on judged documents alone, and its bounds.

    A comparison without a query that both arms have a value for has no row.
    """
    found = {name: (each, paired(each, report.measure)) for name, each in report.evidence.items()}
    rows = tuple(
        (
            Cell(name, f"{evidence.control.arm} → {evidence.candidate.arm}"),
            _judged(evidence.control),
            _judged(evidence.candidate),
            Cell(signed(float(pairs.difference.mean()))),
            _condensed(report, evidence, pairs),
            _bounds(report, evidence, pairs),
        )
        for name, (evidence, pairs) in found.items()
        if pairs and pairs.query_ids
    )
    header = (
        "comparison", f"control's {JUDGED}", f"candidate's {JUDGED}", report.measure,
        "on judged documents alone", "whatever is not judged",
    )  # fmt: skip
    return Table("What unjudged documents leave open, candidate minus control", header, rows)


def _judged(side: ArmResult) -> Cell:
    scores = side.scores.get(JUDGED)
    return Cell(NOT_MEASURED if scores is None else number(scores.mean))


def _condensed(report: ReportInput, evidence: Evidence, pairs: Paired) -> Cell:
    values = [
        score(condense(side.run, report.qrels), report.qrels, [report.measure], pairs.query_ids)
        for side in (evidence.control, evidence.candidate)
    ]
    means = [each[report.measure].mean for each in values]
    control, candidate = means
    if control is None or candidate is None:
        return Cell(NOT_MEASURED)
    return Cell(signed(candidate - control))


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
