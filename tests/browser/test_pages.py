"""Pages in a browser."""

import io
import re
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect
from pypdf import PdfReader

from harness.core.engine import Manifest
from harness.core.gate import Cause, StepDecision, Verdict
from harness.core.records import Qrels
from harness.core.run import Run
from harness.core.scores import Scores
from harness.load import page as load_page
from harness.load.evidence import shown
from harness.load.trial import Histogram
from harness.report import trends
from harness.report.explorer import to_explorer
from harness.report.trends import TrendEntry
from tests.browser.watched import Watched
from tests.make import report_inputs
from tests.once_a_process import pictures
from tests.report import test_live
from tests.report.test_live import load_report
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
    return report_inputs.page_of(decided, report_inputs.compared_only("bare"))


def open_on_all_sides() -> str:
    """Every gate inconclusive, more than a card has room for; its pictures are empty."""
    unclear: Any = {"verdict": Verdict.INCONCLUSIVE, "cause": Cause.OPEN}

    def spoilt(decision: StepDecision) -> StepDecision:
        said = enumerate(decision.findings)
        findings = (replace(one, remedy=f"Judge {at} more.", **unclear) for at, one in said)
        return replace(decision, findings=tuple(findings))

    with pictures(painted=False):
        return report_inputs.page_of(report_inputs.rejudged(report_inputs.report("mail"), spoilt))


Files = Mapping[str, Path]
PAGES: Mapping[str, Callable[[], str]] = {
    "open": open_on_all_sides,
    "several": several,
    "compared": lambda: report_inputs.page_of(report_inputs.compared_only("bare")),
    "trends": lambda: trends.to_page({
        "toy": [entry(number) for number in range(1, 13)], "another": [entry(1)],
    }),
    "load": lambda: load_page.to_page(load_report()),
    "shadow": lambda: test_live.page(test_live.found()),
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
def test_a_page_asks_for_nothing_and_can_be_read(watched: Watched, files: Files, name: str) -> None:
    shown = watched.open(files[name])
    assert watched.grave() == []
    shown.emulate_media(color_scheme="dark")
    assert watched.grave("color-contrast") == []
    assert watched.quiet()


def test_any_address_behind_a_page_opens_it(watched: Watched, files: Files) -> None:
    for part in ("%E0%A4%A", "%", "%00", "\u202e<b>", "constructor", ""):
        shown = watched.open(files["several"], f"#{part}")
        shown.evaluate("part => { location.hash = part }", f"{part}%")
        assert shown.locator("h1").count() == 1
        assert watched.quiet(), part


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_never_wider_than_its_window_and_on_paper_light(
    watched: Watched, files: Files, name: str
) -> None:
    shown = watched.open(files[name])
    for size in (WIDE, NARROW):
        shown.set_viewport_size(size)  # type: ignore[arg-type]
        assert watched.overflow() == 0, size
    shown.emulate_media(media="print", color_scheme="dark")
    assert not shown.locator("nav, .skip, .filter").filter(visible=True).count()
    colour = "name => getComputedStyle(document.documentElement).getPropertyValue(name)"
    assert shown.evaluate(colour, "--paper") == "#fff"
    assert shown.evaluate(colour, "--arm-1") == "#d55e00"
    shown.set_viewport_size(A4)  # type: ignore[arg-type]
    assert watched.overflow() <= 8, "a table is cut"


@pytest.mark.parametrize("name", ["several", "trends", "load", "shadow"])
def test_tab_alone_reaches_everything_in_the_order_of_reading(
    watched: Watched, files: Files, name: str
) -> None:
    shown = watched.open(files[name])
    shown.evaluate(UNFOLD)
    shown.evaluate(f"""() => {{
        window.stops = ({FOCUSABLE})()
        window.reached = []
        addEventListener("focusin", (event) => reached.push(stops.indexOf(event.target)))
    }}""")
    count: int = shown.evaluate("stops.length")
    assert count >= {"several": 60, "trends": 8, "load": 5, "shadow": 12}[name]
    keys = shown.context.new_cdp_session(shown)
    tab = {"type": "rawKeyDown", "key": "Tab", "windowsVirtualKeyCode": 9}
    for _ in range(count):
        keys.send("Input.dispatchKeyEvent", tab)
    assert shown.evaluate("reached") == list(range(count))


def test_what_remains_is_in_sight_and_the_rest_one_key_away(watched: Watched, files: Files) -> None:
    shown = watched.open(files["open"])
    card = shown.locator(".card").nth(1)
    assert "Judge 2 more" in card.locator(".remains").inner_text()
    reasons = card.locator(".more .because li").all()
    assert reasons
    assert not any(one.is_visible() for one in reasons)
    card.locator(".more summary").focus()
    shown.keyboard.press("Enter")
    assert all(one.is_visible() for one in reasons)


def test_on_paper_the_answer_is_whole(watched: Watched, files: Files) -> None:
    shown = watched.open(files["open"])
    read = PdfReader(io.BytesIO(shown.pdf(format="A4")))
    first, *more = (" ".join(page.extract_text().split()) for page in read.pages)
    assert "HOLD" in first
    assert "Judge 2 more" in first
    assert "Filter queries" not in " ".join((first, *more))
    assert len(more) < 39


SCRIPT = "window.executed = true"
TEXTS = (
    f"<script>{SCRIPT}</script>",
    f"</script><script>{SCRIPT}</script>",
    f"</style><script>{SCRIPT}</script><style>",
    f"</title></svg><img src=x onerror='{SCRIPT}'>",
    f'" autofocus onfocus="{SCRIPT}" x="',
    f"<!-- <script> {SCRIPT} // --><details open ontoggle='{SCRIPT}'>",
    f"javascript:{SCRIPT}",
    "rtl \u202edetcerroc\u202c \u2066\u200f mark \u05e9\u05dc\u05d5\u05dd",
    "nul \x00 bell \x07 escape \x1b[31m surrogate \ud800 \udfff",
    "{{ 7 * 7 }} {% raw %} ${x} \u2028 ]]> &lt;b&gt; --> \\u003c",
    "word " * 3_000,
)
ALL = " ".join(TEXTS)
Change = Callable[[str], str]


def everywhere(value: Any, change: Change, keep: tuple[type, ...]) -> Any:  # noqa: ANN401  any value of ours
    """Return ``value`` with every text in it changed; values of the types ``keep`` stay."""
    if isinstance(value, (Enum, *keep)):
        return value
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        items = [everywhere(item, change, keep) for item in value.items()]
        return dict(items)
    if isinstance(value, tuple):
        changed = [everywhere(item, change, keep) for item in value]
        return type(value)(*changed) if hasattr(value, "_fields") else tuple(changed)
    if is_dataclass(value) and not isinstance(value, type):
        held = {field.name: getattr(value, field.name) for field in fields(value) if field.init}
        return replace(value, **{key: everywhere(of, change, keep) for key, of in held.items()})
    return value


OURS = re.compile(r"[qd]\d+|[0-9a-f]{40,}|p[\d.]+|mean|max|ns|\w+@\d+|tau|")
"""Ids, digests, and names of measures: they are ours, and are looked up."""
KEPT = (Qrels, Scores, Run, Histogram, Manifest)


def utf8(text: str) -> str:
    return text.encode("utf-8", "ignore").decode()


def spoilt(text: str) -> str:
    return text if OURS.fullmatch(text) else f"{text} {ALL}"


def index(texts: tuple[str, ...], names: Callable[[str], str] = str) -> str:
    """Return the page of a decision: ``texts`` are queries and titles, ``names`` changes names."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(report_inputs, "HOSTILE", texts)
        return report_inputs.page_of(everywhere(report_inputs.report("mail"), names, KEPT))


def explorer() -> str:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(report_inputs, "HOSTILE", TEXTS)
        return to_explorer([everywhere(report_inputs.report("mail"), spoilt, KEPT)])


def reasons() -> str:
    """Return a page whose gates have much to say; its pictures are those of others, and empty."""
    report = report_inputs.report("mail")
    decided = everywhere(report.decisions, lambda text: text + "x" * 1_000_000, (float, bool))
    with pictures(painted=False):
        return report_inputs.page_of(replace(report, decisions=decided))


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
        patched.setattr(test_live, "HOSTILE", utf8(ALL))
        return test_live.page(test_live.found())


PAGES_HOSTILE: Mapping[str, Callable[[], str]] = {
    "index": lambda: index(TEXTS[:7], spoilt),
    "reasons of a megabyte": reasons,
    "trends": over_time,
    "load": lambda: load_page.to_page(everywhere(load_report(), spoilt, KEPT)),
    "shadow": shadow,
    "explore": explorer,
}


@pytest.fixture(scope="module")
def files_hostile(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("hostile")
    found = {}
    for at, (name, make) in enumerate(PAGES_HOSTILE.items()):
        found[name] = folder / f"{at}.html"
        found[name].write_text(make(), encoding="utf-8")
    return found


@pytest.mark.parametrize(
    ("name", "scripts", "told"),
    [
        ("index", 1, 1), ("reasons of a megabyte", 1, 0), ("trends", 0, 1), ("load", 0, 1),
        ("shadow", 0, 1), ("explore", 1, 0),
    ],
)  # fmt: skip
def test_nothing_of_it_runs_the_layout_holds_and_what_was_written_is_what_is_read(
    watched: Watched, files_hostile: Files, name: str, scripts: int, told: int
) -> None:
    shown = watched.open(files_hostile[name])
    shown.evaluate(UNFOLD)
    for width in (1280, 390):
        shown.set_viewport_size({"width": width, "height": 800})
        assert watched.overflow() == 0, width
    assert shown.locator("script:not([type])").count() == scripts
    strange = "img, iframe, object, embed, base, [onerror], [onfocus], [ontoggle]"
    assert shown.locator(strange).count() == 0
    assert watched.quiet()
    text: str = shown.evaluate("document.body.textContent")
    assert "<script>window.executed = true</script>" in text or not told
    assert not set("\u202e\x00\x07\x1b") & set(text)
    text.encode()


def test_a_hostile_query_opens_as_text(watched: Watched, files_hostile: Files) -> None:
    page = watched.open(files_hostile["explore"])
    page.wait_for_selector("html[data-ready=all]")
    assert page.locator("#rows tr").count() == 40
    heights = page.locator("#rows tr").evaluate_all("rows => rows.map(row => row.offsetHeight)")
    assert max(heights) < 130
    page.locator("#rows a").first.click()
    expect(page.locator("#panel .ranking")).to_have_count(2)
    assert page.locator("main script, main img, main svg:not(#histogram svg)").count() == 0
    assert watched.overflow() == 0
    assert watched.quiet()
