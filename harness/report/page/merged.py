"""Steps that compare the same two arms share one description."""

from __future__ import annotations

from dataclasses import replace

from harness.report.inputs import ReportInput


def merged(report: ReportInput) -> ReportInput:
    """Join comparisons of one control with one candidate under both names.

    Their measurements are the same. Only their bounds differ, and those stay in the decisions, by
    step.
    """
    names: dict[tuple[str, str], list[str]] = {}
    for name, evidence in report.evidence.items():
        names.setdefault((evidence.control.arm, evidence.candidate.arm), []).append(name)
    title = {same[0]: ", ".join(same) for same in names.values()}
    latency = report.latency and replace(
        report.latency,
        ratios={title.get(n, n): r for n, r in report.latency.ratios.items() if n in title},
    )
    return replace(
        report,
        evidence={title[name]: found for name, found in report.evidence.items() if name in title},
        differences={title[name]: row for name, row in report.differences.items() if name in title},
        slice_differences={
            title[name]: row for name, row in report.slice_differences.items() if name in title
        },
        latency=latency,
    )
