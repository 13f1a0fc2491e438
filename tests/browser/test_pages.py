"""Pages in a browser."""

from __future__ import annotations

import gzip
import io
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cache, partial
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect
from pypdf import PdfReader

from harness.core.engine import Manifest
from harness.core.evidence import ArmResult
from harness.core.gate import Cause, StepDecision, Verdict
from harness.core.records import Document, Qrels, Query
from harness.core.run import Row, Run
from harness.core.scores import Scores
from harness.load import page as load_page
from harness.load.evidence import shown
from harness.load.trial import Histogram
from harness.report import trends
from harness.report.explorer import to_explorer
from harness.report.html import explore_link
from harness.report.inputs import ReportInput
from harness.report.page import view
from harness.report.trends import TrendEntry
from tests.browser import explored
from tests.browser.hostile import ALL, MEGABYTE, TEXTS, everywhere
from tests.browser.watched import Watched
from tests.make import report_inputs
from tests.make.explorer_data import DATA
from tests.report import test_shadow as test_shadow_page
from tests.report.test_load import load_report
from tests.report.test_trends import entry

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


OURS = re.compile(r"[qd]\d+|[0-9a-f]{40,}|p[\d.]+|mean|max|ns|\w+@\d+|tau|")
"""Ids, digests, and names of measures: they are ours, and are looked up."""
KEPT = (Qrels, Scores, Run, Histogram, Manifest)


def utf8(text: str) -> str:
    return text.encode("utf-8", "ignore").decode()


def spoilt(text: str) -> str:
    return text if OURS.fullmatch(text) else f"{text} {ALL}"


def index(texts: tuple[str, ...], names: Callable[[str], str] = str) -> str:
    """Give the page of a decision: ``texts`` are queries and titles, ``names`` changes names."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(report_inputs, "HOSTILE", texts)
        return view.to_page([everywhere(report_inputs.report("mail"), names, KEPT)])


def reasons(length: str) -> str:
    """Give a page whose gates have much to say."""
    decided = everywhere(
        report_inputs.report("mail").decisions, lambda text: text + length, (float, bool)
    )
    return view.to_page([replace(report_inputs.report("mail"), decisions=decided)])


def over_time() -> str:
    def changed(number: int) -> TrendEntry:
        told = entry(number).model_dump(mode="json")
        free = ("commit", "python", "code", "packages")
        said = [
            {**step, "step": kept(step["step"]), "gates": everywhere(step["gates"], kept, ())}
            for step in told["steps"]
        ]
        other = {key: everywhere(told[key], kept, ()) for key in free}
        means = {kept(arm): row for arm, row in told["means"].items()}
        return TrendEntry.model_validate({**told, **other, "steps": said, "means": means})

    return trends.to_page({ALL: [changed(1), changed(2)]})


def kept(text: str) -> str:
    """Spoil what a history can hold: its files are UTF-8, and verdicts are ours."""
    if text in set(Verdict):
        return text
    return utf8(spoilt(text))


def shadow() -> str:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(test_shadow_page, "HOSTILE", utf8(ALL))
        return test_shadow_page.page(test_shadow_page.found())


PAGES_HOSTILE: Mapping[str, Callable[[], str]] = {
    "index": lambda: index(TEXTS[:7], spoilt),
    "index, the other texts": lambda: index(TEXTS[7:]),
    "index, a megabyte": lambda: index((MEGABYTE, f"{MEGABYTE} {ALL}", "\u202e" * 5_000)),
    "reasons of a megabyte": lambda: reasons(MEGABYTE),
    "trends": over_time,
    "load": lambda: load_page.to_page(everywhere(load_report(), spoilt, KEPT)),
    "shadow": shadow,
}


@pytest.fixture(scope="module")
def files_hostile(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("hostile")
    found = {}
    for at, (name, make) in enumerate(PAGES_HOSTILE.items()):
        found[name] = folder / f"{at}.html"
        found[name].write_text(make(), encoding="utf-8")
    return found


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", PAGES_HOSTILE)
def test_nothing_of_it_runs_and_the_layout_holds(
    watched: Watched, files_hostile: dict[str, Path], name: str
) -> None:
    shown = watched.open(files_hostile[name])
    shown.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
    for width in (1280, 390):
        shown.set_viewport_size({"width": width, "height": 800})
        assert watched.overflow() == 0, width
    ours = shown.evaluate("document.querySelectorAll('script:not([type])').length")
    assert ours == (1 if name.startswith(("index", "reasons")) else 0)
    strange = "img, iframe, object, embed, link, base, form, [onerror], [onfocus], [ontoggle]"
    assert shown.locator(strange).count() == 0
    assert watched.quiet()


@pytest.mark.parametrize("name", ["index", "load", "shadow", "trends"])
def test_what_was_written_is_what_is_read(
    watched: Watched, files_hostile: dict[str, Path], name: str
) -> None:
    shown = watched.open(files_hostile[name])
    text: str = shown.evaluate("document.body.textContent")
    assert "<script>window.executed = true</script>" in text
    assert "\u202e" not in text
    assert not set("\x00\x07\x1b") & set(text)
    text.encode()


RUNS = "window.executed = true"
HOSTILE = (
    f"<script>{RUNS}</script>",
    f"</script><script>{RUNS}</script>",
    f"<img src=x onerror='{RUNS}'>",
    f'"><svg onload="{RUNS}">',
    f"javascript:{RUNS}",
    "</bdi></td></tr></table></main></body></html>",
    "rtl \u202eevil\u202c \u2067isolate\u2069 \u200f\u200fmarks \u061c",
    "nul \x00 bell \x07 escape \x1b[31m high \ud83d low \ude00",
    "__proto__",
    "constructor",
    "\N{ARABIC LETTER ALEF}" * 300,
    "z\u0335\u0321\u0353\u0354\u0355" * 400,
    "x" * 1_000_000,
    "word " * 200_000,
    "\U0001f469\u200d\U0001f469\u200d\U0001f467" * 500,
    " \n\t ",
)


def named(at: int, plain: str) -> str:
    """Give a hostile name that is no other's."""
    return f"{HOSTILE[at % len(HOSTILE)]}{plain}"


@cache
def hostile() -> ReportInput:
    """Rename everything in the small report."""
    found = explored.report(named(1, "data"))
    ids = {query_id: named(at, query_id) for at, query_id in enumerate(found.queries)}
    arms = {"old": named(0, "old"), "new": named(6, "new"), "other": named(12, "other")}
    text = dict(enumerate(HOSTILE))

    def side(of: ArmResult) -> ArmResult:
        rows = [
            Row(ids[row.query_id], row.status, row.hits, "", row.error and "".join(HOSTILE[:10]))
            for row in of.run.rows()
        ]
        scores = {
            name: replace(
                one,
                query_ids=tuple(ids[q] for q in one.query_ids),
                undefined={w: tuple(ids[q] for q in qs) for w, qs in one.undefined.items()},
            )
            for name, one in of.scores.items()
        }
        return replace(of, arm=arms[of.arm], run=Run.of(arms[of.arm], rows), scores=scores)

    sides = {arms[arm]: side(of) for arm, of in found.arms.items()}
    step = found.evidence["step"]
    agreement = replace(
        step.agreement, query_ids=tuple(ids.values()), classes=tuple(
            named(at % len(HOSTILE), "class") for at in range(len(ids))
        ), scores={},
    )  # fmt: skip
    evidence = replace(
        step,
        control=sides[arms["old"]],
        candidate=sides[arms["new"]],
        agreement=agreement,
        noise=agreement,
    )
    queries = {
        ids[query_id]: Query(
            ids[query_id],
            text.get(at, query.text),
            (named(at, "part"),) if at < 20 else (),
            params={"p" + text.get(at, ""): text.get(at + 1, "")},
        )
        for at, (query_id, query) in enumerate(found.queries.items())
    }
    assert found.latency is not None
    race = replace(
        found.latency.race,
        query_ids=tuple(ids[q] for q in found.latency.race.query_ids),
        elapsed_ns={arms[arm]: of for arm, of in found.latency.race.elapsed_ns.items()},
        repeated_ns={arms[arm]: of for arm, of in found.latency.race.repeated_ns.items()},
        verified={arms["old"]: True, arms["new"]: True},
        machine="".join(HOSTILE[:10]),
    )
    return replace(
        found,
        arms=sides,
        queries=queries,
        evidence={named(2, "step"): evidence},
        means={arms[arm]: row for arm, row in found.means.items()},
        differences={named(2, "step"): found.differences["step"]},
        slice_differences={},
        qrels=replace(found.qrels, grades={ids[q]: g for q, g in found.qrels.grades.items()}),
        latency=replace(found.latency, race=race),
        documents=documents,
        place="",
    )


def documents(ids: frozenset[str]) -> Mapping[str, Document]:
    """Give each document its own hostile text."""
    return {
        doc_id: Document(doc_id, HOSTILE[at % len(HOSTILE)], HOSTILE[(at + 5) % len(HOSTILE)])
        for at, doc_id in enumerate(sorted(ids))
    }


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("hostile") / "explore.html"
    path.write_text(to_explorer([hostile()]), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def tab(chromium: Browser, file: Path) -> Iterator[Watched]:
    with chromium.new_context(
        offline=True, viewport={"width": 1280, "height": 900}, service_workers="block"
    ) as context:
        context.set_default_timeout(10_000)
        watched = Watched.watch(context.new_page())
        watched.open(file).wait_for_selector("html[data-ready=all]")
        yield watched


def kept_explore_hostile(page: Page, name: str) -> None:
    """Leave a picture where somebody wants to look at it."""
    if folder := os.environ.get("SCREENSHOTS"):
        page.screenshot(path=str(Path(folder) / f"{name}.png"), full_page=True)


@pytest.mark.parametrize("width", [1280, 390])
def test_the_table_holds_its_shape_and_runs_nothing(tab: Watched, width: int) -> None:
    page = tab.page
    page.set_viewport_size({"width": width, "height": 900})
    page.select_option("#slice", index=0)
    page.click("[data-sort=query]")
    assert page.locator("#rows tr").count() == 100
    assert tab.overflow() == 0
    heights = page.locator("#rows tr").evaluate_all("rows => rows.map(row => row.offsetHeight)")
    assert max(heights) < 130
    assert tab.quiet()
    kept_explore_hostile(page, f"hostile-table-{width}")


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("at", range(0, len(HOSTILE), 3))
def test_every_query_opens_as_text(tab: Watched, width: int, at: int) -> None:
    page = tab.page
    page.set_viewport_size({"width": width, "height": 900})
    page.evaluate("hash => { location.hash = hash }", link(at))
    expect(page.locator("#panel .ranking")).to_have_count(2)
    assert page.locator("main script, main img, main svg:not(#histogram svg)").count() == 0
    assert tab.overflow() == 0
    assert tab.quiet()
    kept_explore_hostile(page, f"hostile-query-{at}-{width}")
    page.click("#back")


def link(at: int) -> str:
    """Give the part behind the page of a link to one of the queries."""
    report = hostile()
    old, new, *_ = report.arms
    query_id = list(report.queries)[at]
    return explore_link(report.provenance.dataset, old, new, query_id).partition("#")[2]


def test_a_link_to_a_hostile_name_finds_it(tab: Watched) -> None:
    page = tab.page
    page.evaluate("hash => { location.hash = hash }", link(7))
    expect(page.locator("#panel h2")).to_have_text("nul ␀ bell ␇ escape ␛[31m high � low �")
    page.click("#back")


def test_texts_are_cut_and_nothing_leaves_its_packing(file: Path) -> None:
    page = file.read_text(encoding="utf-8")
    assert RUNS not in DATA.sub("", page).replace(f"&lt;script&gt;{RUNS}&lt;/script&gt;", "")
    assert len(page) < 400_000
    assert gzip.compress(page.encode())
    assert not {chr(at) for at in (0, 7, 27, 0x202E, 0x2067, 0xD83D)} & set(page)


HEAD = '<!doctype html><html lang="en"><title>page</title><main><h1>page</h1>'
FAULTS = {
    "a request": '<script>new Image().src = "https://example.org/x.png"</script>',
    "a line on the console": "<script>console.log('hello')</script>",
    "an error": "<script>throw new Error('no')</script>",
    "a dialog": "<script>setTimeout(() => alert('hello'))</script>",
    "a script of the data": "<script>window.executed = true</script>",
}


def opened(watched: Watched, folder: Path, body: str) -> Watched:
    file = folder / "page.html"
    file.write_text(HEAD + body, encoding="utf-8")
    watched.open(file).wait_for_timeout(50)
    return watched


def test_a_page_that_does_nothing_is_quiet(watched: Watched, tmp_path: Path) -> None:
    assert opened(watched, tmp_path, "<p>text").quiet()
    assert watched.grave() == []
    assert watched.overflow() == 0


@pytest.mark.parametrize("body", FAULTS.values(), ids=FAULTS)
def test_what_a_page_does_is_seen(watched: Watched, tmp_path: Path, body: str) -> None:
    assert not opened(watched, tmp_path, body).quiet()


def test_what_cannot_be_read_is_found(watched: Watched, tmp_path: Path) -> None:
    body = '<p style="color:#eee;background:#fff">faint</p><input>'
    found = opened(watched, tmp_path, body).grave()
    assert [one.split(":")[0] for one in found] == ["color-contrast", "label"]
    assert [one.split(":")[0] for one in watched.grave("label")] == ["label"]


def test_what_is_too_wide_is_measured(watched: Watched, tmp_path: Path) -> None:
    body = '<div style="width:2000px;height:1px"></div>'
    assert opened(watched, tmp_path, body).overflow() > 500
