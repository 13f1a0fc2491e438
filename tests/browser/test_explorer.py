"""The explorer in a browser, on small data of which every number is known."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Browser, Page, expect

from harness.core.engine import Hit
from harness.core.evidence import Agreement, ArmResult, Evidence
from harness.core.records import Document, Judgement, Qrels, Query
from harness.core.run import Row, Run, Status
from harness.core.scores import Estimate, Scores
from harness.report.explorer import to_explorer
from harness.report.html import explore_link
from harness.report.inputs import Apart, Latency, ReportInput
from harness.report.rounding import MINUS, number
from tests.browser.conftest import offline
from tests.browser.watched import Watched
from tests.make import report_inputs

pytestmark = pytest.mark.slow
ARMS = ("old", "new", "other")
QUERIES = 250
ODD = {246: 0.00002, 247: 123.456, 248: 12345.678, 249: 0.03125}
"""Values that are written in their own ways."""
LOST, FAILED, NEGATIVE, UNASKED = 7, 11, 13, 17
"""A query that loses all, one that the new arm fails, one without a value, one it was not asked."""
FIRST_LOST, FIRST_UNASKED = f"q{LOST:03d}", f"q{UNASKED:03d}"


def documents() -> Mapping[str, Document]:
    """Twenty documents; ``needle`` stands in one, ``words`` in all others."""
    found = {f"d{at:02d}": f"words about thing{at} " * 30 for at in range(20)}
    found["d03"] = f"{'hay ' * 40} the needle is here {'hay ' * 40}"
    return {doc_id: Document(doc_id, f"Title {doc_id}", text) for doc_id, text in found.items()}


def showing(arm: str, rows: Mapping[int, Sequence[str]]) -> Run:
    """Make a run that shows d00 to d11 but for ``rows``."""
    usual = [f"d{at:02d}" for at in range(12)]

    def row(at: int) -> Row:
        if arm == "new" and at == FAILED:
            return Row(f"q{at:03d}", Status.FAILED, error="no such <table>")
        if arm == "new" and at == UNASKED:
            return Row(f"q{at:03d}", Status.NOT_ASKED)
        docs = rows.get(at, usual)
        return Row(f"q{at:03d}", Status.ANSWERED, [Hit(doc, -i, -i) for i, doc in enumerate(docs)])

    return Run.of(arm, [row(at) for at in range(QUERIES)])


def scored(values: Mapping[int, float], failed: tuple[int, ...] = ()) -> Mapping[str, Scores]:
    """Write 0.5 for every query but ``values``, twice as much of RR@10 as of nDCG@10."""
    known = [at for at in range(QUERIES) if at not in {NEGATIVE, *failed}]
    found = np.array([values.get(at, 0.5) for at in known])
    undefined: dict[str, tuple[str, ...]] = {"negative_query": (f"q{NEGATIVE:03d}",)}
    undefined |= {"failed": tuple(f"q{at:03d}" for at in failed)} if failed else {}
    ids = tuple(f"q{at:03d}" for at in known)
    both = (("nDCG@10", found), ("RR@10", found * 2))
    return {measure: Scores(measure, ids, of, undefined) for measure, of in both}


def agreeing(worse: Mapping[int, str]) -> Agreement:
    """Call every query exact but ``worse``."""
    ids = tuple(f"q{at:03d}" for at in range(QUERIES))
    classes = tuple(worse.get(at, "exact") for at in range(QUERIES))
    alike = Scores("Jaccard@10", ids, np.ones(QUERIES), {})
    return Agreement(ids, classes, {"Jaccard@10": alike})


def report(dataset: str = "small") -> ReportInput:
    """Three arms; old and new are compared, q007 and q017 lose, q001 to q005 gain."""
    base = report_inputs.report(dataset)
    swapped = ["d04", "d05", "d00", "d06", "d07", "d08", "d09", "d10", "d11", "d12", "d03"]
    runs = {"old": showing("old", {}), "new": showing("new", {LOST: swapped})}
    runs["other"] = showing("other", {})
    values: Mapping[str, Mapping[int, float]] = {
        "old": {LOST: 0.9},
        "new": {LOST: 0.1, UNASKED: 0.0, **{at: 0.5 + at / 20 for at in range(1, 6)}},
        "other": {at: at / 1000 for at in range(QUERIES)} | ODD,
    }
    failed = {"old": (), "new": (FAILED,), "other": ()}
    sides = {
        arm: ArmResult(arm, report_inputs.manifest(arm), run, scored(values[arm], failed[arm]))
        for arm, run in runs.items()
    }
    texts = [f"question {at} about thing{at % 20}" for at in range(QUERIES)]
    texts[LOST] = "needle words"
    queries = {
        f"q{at:03d}": Query(f"q{at:03d}", text, ("odd",) if at % 2 else ("even",))
        for at, text in enumerate(texts)
    }
    judged = [Judgement(f"q{at:03d}", "d00", 1) for at in range(QUERIES) if at != NEGATIVE]
    judged += [Judgement(FIRST_LOST, "d03", 2), Judgement(FIRST_LOST, "d01", 0)]
    judged += [Judgement(f"q{at:03d}", "d19", 1) for at in (LOST, FAILED, UNASKED)]
    means = {m: Estimate(0.5, 0.4, 0.6, 249) for m in ("nDCG@10", "RR@10")}
    whole = Estimate(-0.001, -0.0123, 0.0045, QUERIES - 2)
    qrels = Qrels.of(judged)
    classes = agreeing({LOST: "overlap", FAILED: "error", UNASKED: "skipped"})
    both = sides["old"], sides["new"]
    return replace(
        base, decisions=(), policy=None, arms=sides, latency=timed(), queries=queries, qrels=qrels,
        evidence={"step": Evidence(dataset, *both, classes, agreeing({}), {}, {}, {}, qrels)},
        means=dict.fromkeys(ARMS, means), slice_means={}, differences={"step": {"nDCG@10": whole}},
        slice_differences={"step": {"odd": Estimate(-0.002, -0.03, 0.01, 124)}},
        documents=lambda ids: {k: v for k, v in documents().items() if k in ids},
        place="--from out/small", apart=(apart(),),
    )  # fmt: skip


def apart() -> Apart:
    """Take the loss apart: words lose 0.3 by order, vectors 0.5 by documents."""
    values, steps = {FIRST_LOST: (0.9, 0.1)}, {FIRST_LOST: ((0.0, -0.3), (-0.5, 0.0))}
    return Apart("old", "new", "nDCG@10", ("words", "vectors"), values, steps)


def timed() -> Latency:
    """Race the query that loses: 1, 2 and 3 ms against 4, 4 and 7."""
    base = report_inputs.latency(ARMS[:2], ())
    ms = 1_000_000 * np.array([[1, 4], [2, 4], [3, 7]])
    again = {"old": np.array([[2_500_000]]), "new": np.empty((3, 0), dtype=np.int64)}
    race = replace(
        base.race, query_ids=(FIRST_LOST,), elapsed_ns={"old": ms[:, :1], "new": ms[:, 1:]},
        repeated_ns=again, unseen_ns=again, verified={"old": True, "new": True},
    )  # fmt: skip
    return replace(base, race=race)


def at(tab: Watched, file: Path, fragment: str) -> Page:
    tab.page.goto("about:blank")
    page = tab.open(file, fragment)
    page.wait_for_selector("html[data-ready=all]")
    return page


def first(page: Page) -> list[str]:
    return page.locator("#rows th small bdi:first-child").all_inner_texts()


def count(page: Page) -> str:
    return page.locator("#count").inner_text()


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("explore") / "explore.html"
    path.write_text(to_explorer([report(), report_inputs.report("mail")]), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def tab(chromium: Browser) -> Iterator[Watched]:
    with offline(chromium) as opened:
        yield opened


@pytest.fixture
def page(tab: Watched, file: Path) -> Page:
    """Open the page at its beginning, in the tab that all tests share."""
    return at(tab, file, "")


def test_list_and_query_can_be_read_in_any_colours_and_window(tab: Watched, page: Page) -> None:
    def look() -> None:
        assert tab.grave() == []
        page.emulate_media(color_scheme="dark")
        assert tab.grave("color-contrast") == []
        page.emulate_media(color_scheme="light")
        for width in (390, 1280):
            page.set_viewport_size({"width": width, "height": 900})
            assert tab.overflow() == 0, width

    page.fill("#text", "q00")
    look()
    page.locator("#rows a").first.click()
    expect(page.locator("#panel .ranking")).to_have_count(2)
    look()


def test_any_two_arms_can_be_held_against_each_other(page: Page) -> None:
    page.select_option("#candidate", label="other")
    assert page.locator("#comparison").input_value() == "-1"
    assert page.locator("#class").is_disabled()
    assert first(page)[0] == FIRST_LOST
    assert page.locator("#rows td.at-difference").nth(1).inner_text() == f"{MINUS}0.5000"
    assert "not classified" in page.locator("#rows tr").first.inner_text()
    page.click("#swap")
    assert page.locator("#control").evaluate("e => e.selectedOptions[0].text") == "other"
    assert count(page) == "250 of 250 queries: 2 worse, 247 better, 1 no value"
    page.select_option("#comparison", label="step: old → new")
    assert first(page)[0] == FIRST_LOST


def test_numbers_are_written_as_on_every_other_page(page: Page) -> None:
    page.select_option("#candidate", label="other")
    page.fill("#text", "q24")
    written = page.locator("#rows td.at-candidate").all_inner_texts()
    wanted = {at: ODD.get(at, at / 1000) for at in range(240, 250)}
    assert sorted(written) == sorted(map(number, wanted.values()))
    assert f"2.0e{MINUS}05" in written


def test_the_address_holds_the_view(tab: Watched, file: Path) -> None:
    page = at(tab, file, "")
    page.select_option("#slice", "odd")
    page.fill("#text", "thing1 ")
    page.click("[data-sort=candidate]")
    ids = first(page)
    expect(page).to_have_url(re.compile("sort=candidate"))
    said = str(page.evaluate("location.hash"))
    assert "slice=odd" in said
    again = at(tab, file, said)
    assert (first(again), again.locator("#text").input_value()) == (ids, "thing1 ")
    link = explore_link("small", "old", "other", "q042")
    opened = at(tab, file, link.removeprefix("explore.html"))
    assert "question 42 about thing2" in opened.locator("#panel h2").inner_text()
    assert opened.locator("#candidate").evaluate("e => e.selectedOptions[0].text") == "other"
    wrong = at(tab, file, "#d=gone&a=x&b=__proto__&m=constructor&sort=toString&page=-3&q=%00")
    assert first(wrong)[0] == FIRST_LOST


def test_the_keyboard_is_enough(page: Page) -> None:
    press = page.keyboard.press
    press("/")
    expect(page.locator("#text")).to_be_focused()
    page.keyboard.type("jk/?")
    expect(page.locator("#text")).to_have_value("jk/?")
    expect(page.locator("#help")).to_be_hidden()
    page.fill("#text", "thing1")
    for key in ("ArrowDown", "j", "ArrowDown", "k"):
        press(key)
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
    control, candidate = panel.locator(".ranking h3").all_inner_texts()
    assert control.endswith("; 2.00 ms in the race")
    assert candidate.endswith("; 4.00 ms in the race")


def test_the_worst_comes_first_and_all_are_counted(page: Page) -> None:
    assert first(page)[0] == FIRST_LOST
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
    assert (first(page), count(page)) == ([FIRST_LOST], "1 of 250 queries: 1 worse")
    assert page.locator("#histogram rect").count() == 1
    page.fill("#text", "q24")
    assert len(first(page)) == 10
    assert page.locator("#histogram rect").count() == 0
    page.fill("#text", "no such query")
    assert page.locator("#rows").inner_text() == "No query fits. Clear a filter to see more."
    page.click("#clear")
    worse = [FIRST_LOST, FIRST_UNASKED]
    for outcome, ids in {"failed": ["q011"], "none": ["q013"], "worse": worse}.items():
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
    page.click("#after", click_count=2)
    assert first(page)[-2:] == ["q011", "q013"]
    page.click("[data-sort=candidate]")
    assert first(page)[:2] == [FIRST_UNASKED, FIRST_LOST]
    assert page.locator("#before").is_disabled()
    page.click("[data-sort=query]")
    assert first(page)[:2] == [FIRST_LOST, "q000"]
    page.click("[data-sort=class]")
    assert first(page)[0] == "q011"
