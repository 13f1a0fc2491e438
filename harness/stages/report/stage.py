"""Stage ``report``: the pages that people read, of every data set that was decided.

What was written before and stands beside a page is put to it: the last load, and pages to be
followed to.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from urllib.parse import quote

from harness.core import digest
from harness.core.errors import BadFile
from harness.core.files import write_json
from harness.core.formats import json_file
from harness.replay.load.record import Record
from harness.report.decision.write import Written, write_reports
from harness.report.inputs import Links, ReportInput
from harness.report.load.inputs import LoadReport
from harness.stages.compare.decomposition import kept
from harness.stages.custody.chain_of_custody import of_decision
from harness.stages.gate import check_decision, read_decision
from harness.stages.layout import Layout
from harness.stages.load.files import CURVE, LOAD_KEY, history_of, page_of, read_history, receipt_of
from harness.stages.load.summary import noises, points
from harness.stages.params import LoadParams
from harness.stages.report.assemble import Subject, assemble, evidence_of, measured

TRENDS = "trends.html"
STATED = ("packages", "python", "code_version", "machine")
"""Of the provenance: facts of the day and place of the decision."""


def report(subjects: Mapping[Layout, Subject], out: Path, receipt: Path) -> Written:
    """Write the page, its Markdown, the decision and the JUnit file into ``out``.

    ``receipt`` names what the pages were made from, without times, so that it can be tracked.

    Raises:
        BadFile: a data set was not decided.
        EvidenceError: the evidence or the policy was changed since it was, or it expired.
    """
    for layout, subject in subjects.items():
        check_decision(layout, subject, *read_decision(layout))
    reports = [as_decided(layout, subject, out) for layout, subject in subjects.items()]
    written = write_reports(reports, out)
    made_from = {layout.root.name: digest.of_file(layout.findings) for layout in subjects}
    write_json(receipt, {"pages": sorted(path.name for path in written), "from": made_from})
    return written


def as_decided(layout: Layout, subject: Subject, out: Path) -> ReportInput:
    """Put together what the pages in ``out`` say of a decision, with its own day and machine.

    Raises:
        BadFile: nothing was decided, or what was left beside it cannot be read.
        EvidenceError: the evidence is not that of the decision.
    """
    decisions, decided_at = read_decision(layout)
    evidence = evidence_of(layout, subject)
    custody = of_decision(layout, subject, measured(layout, subject, evidence))
    found = assemble(layout, subject, evidence, decisions, decided_at, custody=custody)
    stated = json_file(layout.decision)["datasets"][0]["provenance"]
    facts = {fact: stated[fact] for fact in STATED}
    return linked(replace(found, provenance=replace(found.provenance, **facts)), layout, out)


def linked(report: ReportInput, layout: Layout, out: Path) -> ReportInput:
    """Put to a report what was left: a load, differences taken apart, the addresses of pages.

    Raises:
        BadFile: the history of loads, or what ``harness decompose`` left, cannot be read.
    """
    arms = report.provenance.manifests.items()
    return replace(
        report,
        apart=kept(layout),
        load=last_load(layout, {arm: found.fingerprint for arm, found in arms}),
        links=Links(load=_seen_from(out, page_of(layout)), history=_seen_from(out, out / TRENDS)),
    )


def _seen_from(folder: Path, page: Path) -> str:
    """Give the relative address of a page; empty where there is none."""
    return quote(Path(os.path.relpath(page, folder)).as_posix()) if page.is_file() else ""


def last_load(layout: Layout, fingerprints: Mapping[str, str]) -> LoadReport | None:
    """Put the trials of the last load together; None where none was run, or of other indexes.

    ``fingerprints`` are those of the arms as they are now. Searches for a highest rate are left
    to the page of the load.

    Raises:
        BadFile: the receipt or the history of loads cannot be read.
    """
    if not (receipt_of(layout).is_file() and history_of(layout).is_file()):
        return None
    receipt = _receipt(layout)
    if any(fingerprints.get(arm) != of for arm, of in receipt["arms"].items()):
        return None
    key = digest.of_json(receipt)[:LOAD_KEY]
    trials: dict[tuple[str, bool, float | None, int], Record] = {}
    for one in read_history(history_of(layout)):
        if one.about["load"] == key and one.purpose == CURVE:
            trials[one.arm, one.twin, one.rate, one.number] = one  # the same load run again
    if not trials:
        return None
    return _together(layout, tuple(trials.values()), LoadParams.model_validate(receipt["params"]))


def _receipt(layout: Layout) -> dict[str, dict[str, str]]:
    path = receipt_of(layout)
    try:
        found: dict[str, dict[str, str]] = json_file(path)
    except (OSError, ValueError) as exc:
        raise BadFile(path, f"cannot be read ({exc})", "Run: harness load") from exc
    return found


def _together(layout: Layout, trials: tuple[Record, ...], params: LoadParams) -> LoadReport:
    control = next(one.arm for one in trials if one.twin)
    arms = dict.fromkeys((control, *sorted({one.arm for one in trials})))
    last = trials[-1].about
    return LoadReport(
        dataset=layout.root.name,
        machine=last["machine"],
        loaded_at=max(one.about["at"] for one in trials),
        busy=fmean(float(one.about["busy"]) for one in trials),
        arms=tuple(arms),
        workers=f"processes: {last['processes']}, workers in each: {last['threads']}",
        about={},
        points=points(trials, control, max_lag=params.max_lag, confidence=params.confidence),
        noise=noises(trials, control, max_lag=params.max_lag, max_noise=params.max_noise),
        highest={},
        budget_ns=None,
        index_bytes={one.arm: int(one.about["index_bytes"]) for one in trials},
        command="",
    )
