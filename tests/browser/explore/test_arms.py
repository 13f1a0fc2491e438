"""Two arms at a time: switched, compared, and numbered as on other pages."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from harness.report.explorer import to_explorer
from harness.report.rounding import MINUS, number
from tests.browser import explored
from tests.browser.explore.view import LOST, at, count, first, state
from tests.browser.watched import Watched

pytestmark = pytest.mark.slow


def test_any_two_arms_can_be_held_against_each_other(page: Page) -> None:
    page.select_option("#candidate", label="other")
    assert page.locator("#comparison").input_value() == "-1"
    assert page.locator("#class").is_disabled()
    assert first(page)[0] == LOST
    assert page.locator("#rows td.at-difference").nth(1).inner_text() == f"{MINUS}0.5000"
    assert "not classified" in page.locator("#rows tr").first.inner_text()
    page.click("#swap")
    assert page.locator("#control").evaluate("e => e.selectedOptions[0].text") == "other"
    assert count(page) == "250 of 250 queries: 2 worse, 247 better, 1 no value"
    page.select_option("#comparison", label="step: old → new")
    assert first(page)[0] == LOST


def test_arms_change_while_a_query_is_open(page: Page) -> None:
    page.locator("#rows a").first.click()
    page.focus("#candidate")
    page.select_option("#candidate", label="other")
    expect(page.locator(".ranking").nth(1)).to_contain_text("other")
    assert "Both show the same" in page.locator("#panel .why").first.inner_text()
    expect(page.locator("#candidate")).to_be_focused()
    command = "harness decompose --from out/small --control old --candidate other"
    assert command in page.locator("#panel pre").inner_text()


def test_numbers_are_written_as_on_every_other_page(page: Page) -> None:
    page.select_option("#candidate", label="other")
    page.fill("#text", "q24")
    written = page.locator("#rows td.at-candidate").all_inner_texts()
    wanted = {at: explored.ODD.get(at, at / 1000) for at in range(240, 250)}
    assert sorted(written) == sorted(map(number, wanted.values()))
    assert f"2.0e{MINUS}05" in written


def test_a_race_of_which_no_arm_was_verified_was_still_run(tab: Watched, tmp_path: Path) -> None:
    report = explored.report()
    assert report.latency is not None
    race = replace(report.latency.race, verified={"old": False, "new": False})
    told = replace(report, latency=replace(report.latency, race=race))
    path = tmp_path / "explore.html"
    path.write_text(to_explorer([told]), encoding="utf-8")
    panel = at(tab, path, f"#q={LOST}").locator("#panel")
    none = "No race was run, so nothing is said about time."
    assert none not in panel.inner_text()
    assert "A race was run, on" in panel.inner_text()
    times = panel.get_by_role("region", name="Times of this query").inner_text()
    assert times.count("not told: in the race it answered otherwise than in its run") == 2
    path.write_text(to_explorer([replace(report, latency=None)]), encoding="utf-8")
    assert none in at(tab, path, f"#q={LOST}").locator("#panel").inner_text()


def test_another_data_set(page: Page) -> None:
    page.select_option("#dataset", label="mail")
    expect(page.locator("#count")).to_contain_text("40 of 40 queries")
    assert state(page).startswith("#d=mail&")
    page.go_back()
    expect(page.locator("#count")).to_contain_text("250 of 250 queries")
