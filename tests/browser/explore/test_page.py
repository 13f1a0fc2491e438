"""The page as a whole: colours, print, width, accessibility, and browsers it cannot use."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.watched import Watched

pytestmark = pytest.mark.slow


def test_light_and_dark_by_the_system_and_by_hand(page: Page) -> None:
    def paper() -> str:
        return str(page.evaluate("getComputedStyle(document.body).backgroundColor"))

    light = paper()
    page.emulate_media(color_scheme="dark")
    dark = paper()
    assert dark != light
    page.click("#theme")
    assert paper() == light
    page.emulate_media(color_scheme="light")
    page.click("#theme")
    assert paper() == dark
    page.click("#theme")
    assert paper() == light
    assert page.locator("#theme").inner_text() == "Theme: system"


def test_the_open_query_is_what_is_printed(page: Page) -> None:
    page.locator("#rows a").first.click()
    page.emulate_media(media="print")
    expect(page.locator("#panel .ranking").first).to_be_visible()
    for hidden in ("#choose", "#list", ".steer"):
        expect(page.locator(hidden)).to_be_hidden()
    page.emulate_media(media="screen")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_grave(tab: Watched, page: Page, scheme: str) -> None:
    page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
    page.fill("#text", "q00")
    assert tab.grave() == []
    page.locator("#rows a").first.click()
    expect(page.locator("#panel .ranking")).to_have_count(2)
    assert tab.grave() == []
    page.emulate_media(color_scheme="light")


@pytest.mark.parametrize("width", [390, 1280])
def test_nothing_is_wider_than_its_window(tab: Watched, page: Page, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    assert tab.overflow() == 0
    page.locator("#rows a").first.click()
    expect(page.locator("#panel .ranking")).to_have_count(2)
    assert tab.overflow() == 0
    page.set_viewport_size({"width": 1280, "height": 900})


def test_a_browser_that_cannot_unpack_is_told_so(chromium: Browser, file: Path) -> None:
    with chromium.new_context(offline=True) as context:
        context.add_init_script("delete window.DecompressionStream")
        page = context.new_page()
        page.goto(file.as_uri())
        expect(page.locator("#trouble")).to_contain_text("lacks DecompressionStream")


def test_a_damaged_page_says_so(chromium: Browser, file: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken.html"
    text = file.read_text(encoding="utf-8")
    mark = 'id="values-0">'
    broken.write_text(text.replace(mark, mark + "AAAA", 1), encoding="utf-8")
    with chromium.new_context(offline=True) as context:
        page = context.new_page()
        page.goto(broken.as_uri())
        expect(page.locator("#trouble")).to_contain_text("Run again: python3 run.py")


def test_nothing_was_asked_for_and_nothing_was_logged(tab: Watched, page: Page) -> None:
    """Last: of all that the tests before did in this tab."""
    assert page.title() == "Query by query"
    assert tab.quiet()
