"""One query: both rankings, what became of the relevant, and failures."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from harness.report.rounding import MINUS

pytestmark = pytest.mark.slow


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
    assert "is by what is shown and" in panel.inner_text()
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
