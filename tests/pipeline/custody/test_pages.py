"""Pages of a decision that somebody rewrote: they are made again, and compared."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.core.errors import BadFile, EvidenceError
from harness.pipeline.report import TRENDS, report
from harness.pipeline.verify import verify_pages
from tests.make.toy import NAME, Toy

pytestmark = pytest.mark.slow
PAGES = ("index.html", "explore.html", "report.md", "decision.json", "junit.xml")


@pytest.fixture(scope="module")
def shown(measured: Toy, tmp_path_factory: pytest.TempPathFactory) -> Toy:
    """Decide, and write the pages; a test that spoils one puts it back."""
    made = measured.copied(tmp_path_factory.mktemp("pages") / "project")
    made.decide()
    write(made)
    return made


def write(project: Toy) -> None:
    out = project.root / "reports"
    report({project.layout: project.project.subject(NAME)}, out, out / "receipt.json")


def said(project: Toy) -> str:
    (found,) = verify_pages(project.root / "reports", project.layout)
    return found.said


def test_pages_are_made_again_and_compared(shown: Toy) -> None:
    assert said(shown).startswith("5 files of toy in ")
    page = (shown.root / "reports" / "report.md").read_text()
    assert "Times are taken as the file of the race states them" in page


@pytest.mark.parametrize("name", PAGES)
def test_a_page_that_was_rewritten_is_refused_by_its_name(shown: Toy, name: str) -> None:
    path = shown.root / "reports" / name
    whole = path.read_text()
    path.write_text(f"{whole.replace('PROMOTE', 'HOLD')}\n")
    with pytest.raises(EvidenceError, match=f"{name}: is not what its evidence gives"):
        said(shown)
    path.unlink()
    with pytest.raises((EvidenceError, BadFile), match=f"{name}: (is gone|cannot be read)"):
        said(shown)
    path.write_text(whole)
    said(shown)


def test_pages_of_an_earlier_decision_are_refused(shown: Toy, tmp_path: Path) -> None:
    project = shown.copied(tmp_path / "project")
    project.decide()
    with pytest.raises(EvidenceError, match=r"is not what its evidence gives\. Run: harness rep"):
        said(project)
    write(project)
    said(project)


def test_what_was_left_beside_a_page_since_does_not_make_it_another(
    shown: Toy, tmp_path: Path
) -> None:
    project = shown.copied(tmp_path / "project")
    (project.root / "reports" / TRENDS).write_text("<!doctype html>")
    said(project)
    write(project)
    said(project)
    (project.root / "reports" / TRENDS).unlink()
    with pytest.raises(EvidenceError, match=r"index\.html: is not what"):
        said(project)


def test_a_folder_without_pages_has_none(shown: Toy, tmp_path: Path) -> None:
    (found,) = verify_pages(tmp_path, shown.layout)
    assert found.said == "none was written"
