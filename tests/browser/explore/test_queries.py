"""The list of queries: sorted, filtered, in pages, with the bounds of what was drawn."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page

from harness.report.rounding import MINUS
from tests.browser.explore.view import LOST, UNASKED, count, first

pytestmark = pytest.mark.slow


def test_the_worst_comes_first_and_all_are_counted(page: Page) -> None:
    assert first(page)[0] == LOST
    assert page.locator("#rows tr").count() == 100
    assert count(page) == "250 of 250 queries: 2 worse, 5 better, 241 same, 1 failed, 1 no value"
    row = page.locator("#rows tr").first.inner_text().split()
    assert row[0] == f"{MINUS}0.8000"
    assert row[-4:] == ["0.9000", "0.1000", "overlap", "1.000"]
    assert page.locator("#head .at-class").inner_text() == "Class@10"


def test_an_interval_is_shown_where_one_came_with_the_data_and_nowhere_else(page: Page) -> None:
    facts = page.locator("#facts")
    assert f"{MINUS}0.0010 [{MINUS}0.0123, 0.0045], 248 queries" in facts.inner_text()
    page.select_option("#slice", "odd")
    assert f"{MINUS}0.0020 [{MINUS}0.0300, 0.0100], 124 queries" in facts.inner_text()
    page.select_option("#measure", "1")
    assert "of a slice, an interval is told in nDCG@10 alone" in facts.inner_text()
    page.select_option("#slice", "even")
    page.select_option("#measure", "0")
    assert "no interval was computed of this slice" in facts.inner_text()
    page.select_option("#slice", "odd")
    page.select_option("#outcome", "better")
    assert "+0.1500 over 3 queries; no interval" in facts.inner_text()
    page.click("#clear")
    page.select_option("#measure", "1")
    assert "no interval was computed in RR@10" in facts.inner_text()
    page.select_option("#measure", "0")
    page.select_option("#candidate", label="other")
    assert "no interval was computed for this pair of arms" in facts.inner_text()
    assert "0.5000 [0.4000, 0.6000], 249 queries" in facts.inner_text()


def test_filters_narrow_what_is_listed_counted_and_drawn(page: Page) -> None:
    page.fill("#text", "NEEDLE")
    assert (first(page), count(page)) == ([LOST], "1 of 250 queries: 1 worse")
    assert page.locator("#histogram rect").count() == 1
    page.fill("#text", "q24")
    assert len(first(page)) == 10
    assert page.locator("#histogram rect").count() == 0
    page.fill("#text", "no such query")
    assert page.locator("#rows").inner_text() == "No query fits. Clear a filter to see more."
    page.click("#clear")
    for outcome, ids in {"failed": ["q011"], "none": ["q013"], "worse": [LOST, UNASKED]}.items():
        page.select_option("#outcome", outcome)
        assert first(page) == ids
    page.click("#clear")
    page.select_option("#class", "error")
    assert first(page) == ["q011"]
    assert page.locator("#count").get_attribute("aria-live") == "polite"


def test_every_column_sorts_both_ways_and_what_has_no_value_is_last(page: Page) -> None:
    page.click("[data-sort=difference]")
    assert first(page)[:2] == ["q005", "q004"]
    assert page.locator("th[aria-sort]").get_attribute("aria-sort") == "descending"
    page.click("#after")
    page.click("#after")
    assert first(page)[-2:] == ["q011", "q013"]
    page.click("[data-sort=candidate]")
    assert first(page)[:2] == [UNASKED, LOST]
    assert page.locator("#before").is_disabled()
    page.click("[data-sort=query]")
    assert first(page)[:2] == [LOST, "q000"]
    page.click("[data-sort=class]")
    assert first(page)[0] == "q011"


def test_pages_of_a_hundred(page: Page) -> None:
    page.click("#after")
    page.click("#after")
    assert page.locator("#page").inner_text() == "201 to 250 of 250"
    assert page.locator("#rows tr").count() == 50
    assert page.locator("#after").is_disabled()
    page.click("#before")
    assert page.locator("#page").inner_text() == "101 to 200 of 250"
