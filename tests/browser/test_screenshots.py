"""The pictures for README are taken from pages as the demo writes them."""

from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image
from playwright.sync_api import Browser

from benchmarks import screenshots
from harness.report.explorer import to_explorer
from harness.report.page.view import to_page
from tests.make import report_inputs

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pictures")
    decided = [report_inputs.report("mail")]
    (folder / "index.html").write_text(to_page(decided), encoding="utf-8")
    (folder / "explore.html").write_text(to_explorer(decided), encoding="utf-8")
    return folder


def test_both_pages_are_on_a_picture(chromium: Browser, reports: Path, tmp_path: Path) -> None:
    screenshots.take(chromium, reports, tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"report.png", "explorer.png"}
    for path in tmp_path.iterdir():
        with Image.open(path) as picture:
            assert (picture.format, picture.size) == ("PNG", (1280, 900))
            assert len(picture.convert("RGB").getcolors() or ()) > 50, "not an empty page"


def test_a_picture_that_is_too_large_is_refused(
    chromium: Browser, reports: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(screenshots, "LARGEST", 1_000)
    with pytest.raises(SystemExit, match=r"report\.png: .* more than 1,000"):
        screenshots.take(chromium, reports, tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_page_that_is_not_there_is_named(chromium: Browser, tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=r"no index\.html and no explore\.html.*run\.py demo"):
        screenshots.take(chromium, tmp_path, tmp_path / "out")
    assert not (tmp_path / "out").exists()
