"""The pages as people open them: what they load, what axe finds, and what a keyboard reaches."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from pypdf import PdfReader

from harness.core.gate import Cause, StepDecision, Verdict
from harness.load import page as load_page
from harness.load.evidence import shown
from harness.report import trends
from harness.report.page import view
from tests.browser.watched import Watched
from tests.make import report_inputs
from tests.report.load.test_page import load_report
from tests.report.shadow import test_page as test_shadow_page
from tests.report.trends.test_history import entry

pytestmark = pytest.mark.slow
WIDE, NARROW = {"width": 1280, "height": 900}, {"width": 390, "height": 844}
A4 = {"width": 718, "height": 1000}
"""Between the margins of a sheet, in CSS pixels."""
UNFOLD = "for (const one of document.querySelectorAll('details')) one.open = true"
FOCUSABLE = """() => [...document.querySelectorAll(
  'a[href], summary, input, select, textarea, button, [tabindex="0"]')]
  .filter(one => one.checkVisibility({contentVisibilityAuto: true, visibilityProperty: true}))"""


def several() -> str:
    """Two data sets: three steps of a policy, with a load and earlier decisions; and no policy."""
    load = partial(shown, load_report(), "load.html")
    decided = replace(report_inputs.report("mail"), beside=(load,), history="trends.html")
    return view.to_page([decided, report_inputs.compared_only("bare")])


def open_on_all_sides() -> str:
    """Every gate inconclusive, so that more stand in the way than a card has room for."""

    def spoilt(decision: StepDecision) -> StepDecision:
        said = [
            replace(
                found, verdict=Verdict.INCONCLUSIVE, cause=Cause.OPEN, remedy=f"Judge {at} more."
            )
            for at, found in enumerate(decision.findings)
        ]
        return replace(decision, findings=tuple(said))

    return view.to_page([report_inputs.rejudged(report_inputs.report("mail"), spoilt)])


PAGES: Mapping[str, Callable[[], str]] = {
    "several": several,
    "open": open_on_all_sides,
    "compared": lambda: view.to_page([report_inputs.compared_only("bare")]),
    "trends": lambda: trends.to_page({
        "toy": [entry(number) for number in range(1, 13)], "another": [entry(1)],
    }),
    "load": lambda: load_page.to_page(load_report()),
    "shadow": lambda: test_shadow_page.page(test_shadow_page.found()),
}  # fmt: skip


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Write every page once."""
    folder = tmp_path_factory.mktemp("pages")
    found = {name: folder / f"{name}.html" for name in PAGES}
    for name, make in PAGES.items():
        found[name].write_text(make(), encoding="utf-8")
    return found


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", PAGES)
def test_a_page_asks_for_nothing_and_can_be_read(
    watched: Watched, files: dict[str, Path], name: str
) -> None:
    shown = watched.open(files[name])
    assert watched.grave() == []
    shown.emulate_media(color_scheme="dark")
    assert watched.grave("color-contrast") == []
    assert watched.quiet()


@pytest.mark.parametrize("name", PAGES)
def test_any_address_behind_a_page_opens_it(
    watched: Watched, files: dict[str, Path], name: str
) -> None:
    for part in ("%E0%A4%A", "%", "%00", "%zz=%", "\u202e<b>", "a" * 70_000, "constructor", ""):
        shown = watched.open(files[name], f"#{part}")
        shown.evaluate("part => { location.hash = part }", f"{part}%")
        assert shown.locator("h1").count() == 1
        assert watched.quiet(), part[:20]


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_never_wider_than_its_window(
    watched: Watched, files: dict[str, Path], name: str
) -> None:
    shown = watched.open(files[name])
    for size in (WIDE, NARROW):
        shown.set_viewport_size(size)  # type: ignore[arg-type]
        assert watched.overflow() == 0, size


@pytest.mark.parametrize("name", ["several", "trends", "load", "shadow"])
def test_tab_alone_reaches_everything_in_the_order_of_reading(
    watched: Watched, files: dict[str, Path], name: str
) -> None:
    shown = watched.open(files[name])
    shown.evaluate(UNFOLD)
    shown.evaluate(f"window.stops = ({FOCUSABLE})()")
    count: int = shown.evaluate("stops.length")
    assert count >= {"several": 60, "trends": 10, "load": 6, "shadow": 12}[name]
    reached = []
    for _ in range(count):
        shown.keyboard.press("Tab")
        reached.append(shown.evaluate("stops.indexOf(document.activeElement)"))
    assert reached == list(range(count))


def test_the_first_tab_skips_to_the_answer(watched: Watched, files: dict[str, Path]) -> None:
    for name in ("several", "trends", "load"):
        shown = watched.open(files[name])
        shown.keyboard.press("Tab")
        assert shown.locator(".skip").bounding_box()["x"] >= 0  # type: ignore[index]
        shown.keyboard.press("Enter")
        assert shown.evaluate("location.hash") == "#answer"


def test_a_figure_that_is_too_wide_scrolls_by_keyboard(
    watched: Watched, files: dict[str, Path]
) -> None:
    shown = watched.open(files["several"])
    shown.set_viewport_size(NARROW)  # type: ignore[arg-type]
    shown.evaluate(UNFOLD)
    figure = shown.locator("#d0-quality figure .scroll").first
    figure.focus()
    for _ in range(5):
        shown.keyboard.press("ArrowRight")
        shown.wait_for_timeout(100)
    assert figure.evaluate("one => one.scrollLeft") > 20


def test_a_gate_on_the_first_screen_leads_to_its_row(
    watched: Watched, files: dict[str, Path]
) -> None:
    shown = watched.open(files["several"])
    link = shown.locator(".strip .inconclusive a").first
    gate = link.locator(".name").inner_text()
    link.click()
    row = shown.locator("tr:target")
    assert row.locator("th").inner_text().startswith(gate)
    assert "To reach a decision" in row.inner_text()
    top: float = row.evaluate("row => row.getBoundingClientRect().top")
    assert 0 <= top < WIDE["height"]


def test_what_remains_is_in_sight_and_the_rest_one_key_away(
    watched: Watched, files: dict[str, Path]
) -> None:
    shown = watched.open(files["open"])
    card = shown.locator(".card").nth(1)
    assert "Judge 2 more" in card.locator(".remains").inner_text()
    reasons = card.locator(".more .because li").all()
    assert reasons
    assert not any(one.is_visible() for one in reasons)
    card.locator(".more summary").focus()
    shown.keyboard.press("Enter")
    assert all(one.is_visible() for one in reasons)


def test_on_paper_the_answer_is_whole(watched: Watched, files: dict[str, Path]) -> None:
    shown = watched.open(files["open"])
    read = PdfReader(io.BytesIO(shown.pdf(format="A4")))
    first = " ".join(read.pages[0].extract_text().split())
    assert "HOLD" in first
    assert "Judge 2 more" in first
    text = " ".join(" ".join(each.extract_text() for each in read.pages).split())
    assert "Filter queries" not in text
    assert len(read.pages) < 40


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", PAGES)
def test_on_paper_a_page_is_light_and_no_table_is_cut(
    watched: Watched, files: dict[str, Path], name: str
) -> None:
    shown = watched.open(files[name])
    shown.emulate_media(media="print", color_scheme="dark")
    assert not shown.locator("nav, .skip, .filter").filter(visible=True).count()
    colour = "name => getComputedStyle(document.documentElement).getPropertyValue(name)"
    assert shown.evaluate(colour, "--paper") == "#fff"
    assert shown.evaluate(colour, "--arm-1") == "#d55e00"
    shown.set_viewport_size(A4)  # type: ignore[arg-type]
    assert watched.overflow() <= 8
