"""Stage ``report``: the pages that people read, of every data set that was decided."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from harness.core import digest
from harness.core.files import write_json
from harness.report.decision.write import Written, write_reports
from harness.stages.custody.chain_of_custody import of_decision
from harness.stages.gate import check_decision, read_decision
from harness.stages.layout import Layout
from harness.stages.report.assemble import Subject, assemble, evidence_of, measured
from harness.stages.report.linked import linked


def report(subjects: Mapping[Layout, Subject], out: Path, receipt: Path) -> Written:
    """Write the page, its Markdown, the decision and the JUnit file into ``out``.

    ``receipt`` names what the pages were made from, without times, so that it can be tracked.

    Raises:
        BadFile: a data set was not decided.
        EvidenceError: the evidence or the policy was changed since it was, or it expired.
    """
    reports = []
    for layout, subject in subjects.items():
        decisions, decided_at = read_decision(layout)
        check_decision(layout, subject, decisions, decided_at)
        evidence = evidence_of(layout, subject)
        kept = of_decision(layout, subject, measured(layout, subject, evidence))
        report_input = assemble(layout, subject, evidence, decisions, decided_at, custody=kept)
        reports.append(linked(report_input, layout, out))
    written = write_reports(reports, out)
    made_from = {layout.root.name: digest.of_file(layout.findings) for layout in subjects}
    write_json(receipt, {"pages": sorted(path.name for path in written), "from": made_from})
    return written
