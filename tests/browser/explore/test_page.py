"""The explorer in a browser."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from harness.report.explorer import to_explorer
from harness.report.html import explore_link
from harness.report.rounding import MINUS, number
from tests.browser import explored
from tests.browser.explore.view import LOST, UNASKED, at, count, first, state
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


def test_a_query_shows_both_rankings_and_what_became_of_the_relevant(page: Page) -> None:
    page.locator("#rows a").first.click()
    panel = page.locator("#panel")
    expect(panel.locator("h2")).to_be_focused()
    control, candidate = panel.locator(".ranking").all()
    assert control.locator("li").count() == candidate.locator("li").count() == 10
    third = control.locator("li").nth(3).inner_text().split("\n")
    assert third[:4] == ["4", "relevant, grade 2", "down 7", "d03"]
    assert control.locator("li .move").all_inner_texts()[:4] == ["down 2", "gone", "gone", "down 7"]
    assert control.locator("mark").all_inner_texts() == ["needle"]
    assert "not relevant, grade 0" in control.locator("li").nth(1).inner_text()
    assert "not judged" in control.locator("li").nth(2).inner_text()
    assert "down 2" in candidate.locator("li").nth(2).inner_text()
    moves = candidate.locator("li .move").all_inner_texts()
    assert moves[7:] == ["up 3", "up 3", "new"]
    assert "11 hits were kept" in candidate.inner_text()
    said = panel.locator(".why").first.inner_text()
    assert "1 relevant document left the first ten (rank 4 → 11)" in said
    assert "1 relevant document moved down (rank 1 → 3)" in said
    assert "Of 3 that are new in the first ten, 3 were never judged." in said


def test_a_query_shows_what_nobody_shows_its_measures_its_parts_and_its_times(page: Page) -> None:
    page.locator("#rows a").first.click()
    panel = page.locator("#panel")
    missing = panel.get_by_role("region", name="Relevant documents that neither arm shows")
    assert "not among the 12 hits kept\tnot among the 11 hits kept" in missing.inner_text()
    assert missing.locator("tbody th small").all_inner_texts() == ["d19"]
    measures = panel.get_by_role("region", name="Every measure of this query").inner_text()
    assert f"RR@10\t1.800\t0.2000\t{MINUS}1.600" in measures
    assert ": documents " in panel.inner_text()
    stages = panel.get_by_role("region", name="Stages of the candidate").inner_text()
    assert f"words\t0\t{MINUS}0.3000\t{MINUS}0.3000" in stages
    assert f"vectors\t{MINUS}0.5000\t0\t{MINUS}0.5000" in stages
    assert panel.locator("pre").count() == 0
    times = panel.get_by_role("region", name="Times of this query").inner_text()
    assert "old\t2.00\t1.00\t3.00\t2.50" in times
    assert "new\t4.00\t4.00\t7.00\tnot asked again" in times


def test_a_failure_is_told_and_is_no_number(page: Page) -> None:
    page.select_option("#outcome", "failed")
    assert page.locator("#rows td").first.inner_text().startswith("failed")
    page.locator("#rows a").first.click()
    assert "new: failed: no such <table>." in page.locator("#panel .why").first.inner_text()
    assert "failed: no such <table>" in page.locator(".ranking .instead").inner_text()
    assert page.locator(".ranking li").count() == 10
    assert page.locator(".ranking li .move").count() == 0
    missing = page.get_by_role("region", name="Relevant documents that neither arm shows")
    assert "not among the 12 hits kept\tfailed: no such <table>" in missing.inner_text()


def test_what_was_not_asked_is_no_failure_and_counts_with_its_value(page: Page) -> None:
    row = page.locator("#rows tr").nth(1)
    assert row.inner_text().split()[0] == f"{MINUS}0.5000"
    assert row.get_attribute("class") == "worse"
    row.locator("a").click()
    panel = page.locator("#panel")
    expect(panel.locator(".ranking .instead")).to_have_text("was not asked")
    said = panel.locator(".why").first.inner_text()
    assert f"nDCG@10 0.5000 → 0 {MINUS}0.5000" in said
    assert "new: was not asked. 1 relevant document left the first ten (rank 1 → none)." in said
    assert panel.locator(".ranking li .move").count() == 0
    missing = panel.get_by_role("region", name="Relevant documents that neither arm shows")
    assert "not among the 12 hits kept\twas not asked" in missing.inner_text()


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
