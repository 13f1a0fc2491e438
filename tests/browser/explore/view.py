"""What the page of the explorer shows: its rows, its counter and its address."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import Page

from tests.browser.watched import Watched

LOST, UNASKED = "q007", "q017"


def at(tab: Watched, file: Path, fragment: str) -> Page:
    tab.page.goto("about:blank")
    page = tab.open(file, fragment)
    page.wait_for_selector("html[data-ready=all]")
    return page


def first(page: Page) -> list[str]:
    return page.locator("#rows th small bdi:first-child").all_inner_texts()


def count(page: Page) -> str:
    return page.locator("#count").inner_text()


def state(page: Page) -> str:
    page.wait_for_timeout(200)
    return str(page.evaluate("location.hash"))
