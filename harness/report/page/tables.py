"""Quality, agreement and latency as rows of words, shared by the page and the Markdown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from harness.core.engine import IMPORTED
from harness.core.errors import SHOWN
from harness.core.evidence import Agreement, ArmResult, Evidence
from harness.core.printable import counted, one_line
from harness.core.run import Status
from harness.core.scores import Estimate, Scores
from harness.measures.ties.sensitivity import count_ties
from harness.report.inputs import ReportInput
from harness.report.rounding import interval, number, share, signed
from harness.report.rows import Cell, Table

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
