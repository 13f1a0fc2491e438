"""One explorer, open in a tab that the tests of a module share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from harness.report.explorer import to_explorer
from tests.browser import explored
from tests.browser.explore.view import at
from tests.browser.watched import Watched
from tests.make import report_inputs


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("explore") / "explore.html"
    path.write_text(
        to_explorer([explored.report(), report_inputs.report("mail")]), encoding="utf-8"
    )
    return path


@pytest.fixture(scope="module")
def tab(chromium: Browser) -> Iterator[Watched]:
    with chromium.new_context(
        offline=True, viewport={"width": 1280, "height": 900}, service_workers="block"
    ) as context:
        context.set_default_timeout(10_000)
        yield Watched.watch(context.new_page())


@pytest.fixture
def page(tab: Watched, file: Path) -> Page:
    """Open the page at its beginning, in the tab that all tests share."""
    return at(tab, file, "")
