"""The view is in the address, and the keyboard is enough."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from harness.report.html import explore_link
from tests.browser.explore.view import LOST, at, first, state
from tests.browser.watched import Watched

pytestmark = pytest.mark.slow


def test_a_link_that_is_followed_while_typing_is_kept(page: Page) -> None:
    follow = """() => {
        const text = document.querySelector("#text");
        text.value = "question 4";
        text.dispatchEvent(new Event("input"));
        document.querySelector("#rows a").click();
    }"""
    page.evaluate(follow)
    expect(page.locator("#panel h2")).to_have_text("question 40 about thing0")
    said = state(page)
    assert "text=question%204" in said
    assert said.endswith("&q=q040")


def test_the_address_holds_the_view(tab: Watched, file: Path) -> None:
    page = at(tab, file, "")
    page.select_option("#slice", "odd")
    page.fill("#text", "thing1 ")
    page.click("[data-sort=candidate]")
    ids = first(page)
    said = state(page)
    assert "slice=odd" in said
    again = at(tab, file, said)
    assert (first(again), again.locator("#text").input_value()) == (ids, "thing1 ")
    link = explore_link("small", "old", "other", "q042")
    opened = at(tab, file, link.removeprefix("explore.html"))
    assert "question 42 about thing2" in opened.locator("#panel h2").inner_text()
    assert opened.locator("#candidate").evaluate("e => e.selectedOptions[0].text") == "other"
    wrong = at(tab, file, "#d=gone&a=x&b=__proto__&m=constructor&sort=toString&page=-3&q=%00")
    assert first(wrong)[0] == LOST


def test_back_closes_what_was_opened(page: Page) -> None:
    page.locator("#rows a").nth(2).click()
    expect(page.locator("#panel h2")).to_be_visible()
    page.go_back()
    expect(page.locator("#list")).to_be_visible()
    expect(page.locator("#panel")).to_be_hidden()


def test_the_keyboard_is_enough(page: Page) -> None:
    press = page.keyboard.press
    press("/")
    expect(page.locator("#text")).to_be_focused()
    page.keyboard.type("jk/?")
    expect(page.locator("#text")).to_have_value("jk/?")
    expect(page.locator("#help")).to_be_hidden()
    page.fill("#text", "thing1")
    press("ArrowDown")
    press("j")
    press("ArrowDown")
    press("k")
    links = page.locator("#rows a")
    expect(links.nth(1)).to_be_focused()
    press("Enter")
    expect(page.locator("#panel h2")).to_be_focused()
    opened = page.locator("#panel h2").inner_text()
    press("n")
    expect(page.locator("#panel h2")).not_to_have_text(opened)
    press("p")
    expect(page.locator("#panel h2")).to_have_text(opened)
    press("Escape")
    expect(links.nth(1)).to_be_focused()
    press("?")
    expect(page.locator("#help")).to_be_visible()
    press("Escape")
    expect(page.locator("#help")).to_be_hidden()
    expect(page.locator("#list")).to_be_visible()


def test_keys_of_one_letter_can_be_turned_off(page: Page) -> None:
    page.keyboard.press("?")
    page.uncheck("#single")
    page.click("#close-help")
    page.keyboard.press("/")
    expect(page.locator("#text")).not_to_be_focused()


def test_tab_alone_reaches_everything(page: Page) -> None:
    seen = set()
    for _ in range(24):
        page.keyboard.press("Tab")
        seen.add(page.evaluate("document.activeElement.id || document.activeElement.tagName"))
    wanted = {"skip", "theme", "keys", "comparison", "control", "swap", "candidate", "measure"}
    wanted |= {"text", "outcome", "slice", "class", "clear", "A", "BUTTON"}
    assert wanted <= seen
