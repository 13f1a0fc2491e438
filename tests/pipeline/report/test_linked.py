"""What stands beside a page: the last load of the arms as they are, and where pages lie."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote

import pytest

from harness.core.errors import BadFile, EvidenceError
from harness.load import trials as loading
from harness.load.evidence import last_load
from harness.load.files import TRIALS, history_of, page_of, receipt_of
from harness.load.trial import LoadReport
from harness.pipeline.receipts import read_manifest
from harness.pipeline.report import linked, report
from harness.pipeline.verify import verify_pages
from harness.report.doc import Link, Text
from harness.report.inputs import ReportInput
from tests.load.test_stage import in_here, loaded
from tests.make import report_inputs
from tests.make.toy import Toy

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def done(
    measured: Toy, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Toy, LoadReport]]:
    project = measured.copied(tmp_path_factory.mktemp("linked") / "project")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(loading, "run_pool", in_here)
        patched.setattr(loading, "LOOK_S", 0.01)
        yield project, loaded(project)


def fingerprints(project: Toy) -> dict[str, str]:
    return {arm: read_manifest(project.layout, arm).fingerprint for arm in ("fts5", "tantivy")}


def test_the_last_load_says_what_the_load_said(done: tuple[Toy, LoadReport]) -> None:
    project, report = done
    load_report = last_load(project.layout, fingerprints(project))
    assert load_report is not None
    assert load_report.arms == report.arms
    assert load_report.rates == report.rates
    assert load_report.noise == report.noise
    assert [(p.arm, p.twin, p.rate) for p in load_report.points] == [
        (p.arm, p.twin, p.rate) for p in report.points
    ]
    for ours, theirs in zip(load_report.points, report.points, strict=True):
        assert ours.overall.encoded() == theirs.overall.encoded()
        assert ours.objections == theirs.objections


def test_a_load_run_again_takes_the_place_of_the_one_before(
    done: tuple[Toy, LoadReport], tmp_path: Path
) -> None:
    project = done[0].copied(tmp_path / "project")
    history = history_of(project.layout)
    before = TRIALS.read(history)
    later = [replace(r, about={**r.about, "at": "2099-01-01T00:00:00+00:00"}) for r in before]
    TRIALS.append(history, later)
    load_report = last_load(project.layout, fingerprints(project))
    assert load_report is not None
    assert load_report.loaded_at == "2099-01-01T00:00:00+00:00"
    assert sum(len(p.records) + len(p.objections) for p in load_report.points) == len(before)


def test_another_load_or_another_index_is_none(
    done: tuple[Toy, LoadReport], tmp_path: Path
) -> None:
    project = done[0].copied(tmp_path / "project")
    known = fingerprints(project)
    assert last_load(project.layout, {**known, "tantivy": "other"}) is None
    assert last_load(project.layout, {"fts5": known["fts5"]}) is None
    receipt = json.loads(receipt_of(project.layout).read_text())
    receipt_of(project.layout).write_text(json.dumps({**receipt, "rates": [1.0]}))
    assert last_load(project.layout, known) is None
    receipt_of(project.layout).write_text("{")
    with pytest.raises(BadFile, match="Run: harness load"):
        last_load(project.layout, known)
    receipt_of(project.layout).unlink()
    assert last_load(project.layout, known) is None


def test_pages_that_are_there_are_named_as_seen_from_the_report(
    done: tuple[Toy, LoadReport], tmp_path: Path
) -> None:
    project = done[0].copied(tmp_path / "a b" / "project")
    out = project.root / "reports"
    out.mkdir()
    report: ReportInput = report_inputs.report()
    load, other = shown_load(linked(report, project.layout, out))
    assert other == "The load is not of these arms as they are now."
    assert (out / unquote(load)).resolve() == page_of(project.layout)
    assert linked(report, project.layout, out).history == ""
    (out / "trends.html").write_text("x")
    page_of(project.layout).unlink()
    found = linked(report, project.layout, out)
    assert (found.history, found.beside) == ("trends.html", ())
    (project.layout.today / "x").mkdir(parents=True)
    page_of(project.layout).write_text("x")
    inside = tmp_path / "other"
    assert shown_load(linked(report, project.layout, inside))[0].startswith("../a%20b/project/")


def shown_load(found: ReportInput) -> list[str]:
    """Return address and text of the part on the load."""
    (section,) = (one("d0") for one in found.beside)
    by = {type(block): block for block in section.blocks if isinstance(block, Link | Text)}
    return [getattr(by[Link], "href"), getattr(by[Text], "text")]  # noqa: B009


def test_a_load_beside_a_page_is_part_of_it_and_one_after_it_is_not(
    done: tuple[Toy, LoadReport], tmp_path: Path
) -> None:
    project = done[0].copied(tmp_path / "project")
    out = project.root / "reports"
    project.decide()
    report({project.layout: project.project.subject("toy")}, out, out / "receipt.json")
    (before,) = verify_pages(out, project.layout)
    receipt = receipt_of(project.layout)
    whole = receipt.read_text()
    receipt.unlink()
    with pytest.raises(EvidenceError, match=r"index\.html: is not what its evidence gives"):
        verify_pages(out, project.layout)
    report({project.layout: project.project.subject("toy")}, out, out / "receipt.json")
    receipt.write_text(whole)
    assert verify_pages(out, project.layout) == (before,)
