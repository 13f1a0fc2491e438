"""Names, queries, titles and reasons that are markup: nothing runs, and the layout holds."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from harness.core.engine import Manifest
from harness.core.gate import Verdict
from harness.core.records import Qrels
from harness.core.run import Run
from harness.core.scores import Scores
from harness.load import page as load
from harness.load.trial import Histogram
from harness.report import trends
from harness.report.page import view
from harness.report.trends import Entry
from tests.browser.hostile import ALL, MEGABYTE, TEXTS, everywhere
from tests.browser.watched import Watched
from tests.make import report_inputs
from tests.report.load.test_page import load_report
from tests.report.shadow import test_page as test_shadow_page
from tests.report.trends.test_history import entry

pytestmark = pytest.mark.slow

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
    def changed(number: int) -> Entry:
        told = entry(number).model_dump(mode="json")
        free = ("commit", "python", "code", "packages")
        said = [
            {**step, "step": kept(step["step"]), "gates": everywhere(step["gates"], kept, ())}
            for step in told["steps"]
        ]
        other = {key: everywhere(told[key], kept, ()) for key in free}
        means = {kept(arm): row for arm, row in told["means"].items()}
        return Entry.model_validate({**told, **other, "steps": said, "means": means})

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


PAGES: Mapping[str, Callable[[], str]] = {
    "index": lambda: index(TEXTS[:7], spoilt),
    "index, the other texts": lambda: index(TEXTS[7:]),
    "index, a megabyte": lambda: index((MEGABYTE, f"{MEGABYTE} {ALL}", "\u202e" * 5_000)),
    "reasons of a megabyte": lambda: reasons(MEGABYTE),
    "trends": over_time,
    "load": lambda: load.to_page(everywhere(load_report(), spoilt, KEPT)),
    "shadow": shadow,
}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("hostile")
    found = {}
    for at, (name, make) in enumerate(PAGES.items()):
        found[name] = folder / f"{at}.html"
        found[name].write_text(make(), encoding="utf-8")
    return found


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", PAGES)
def test_nothing_of_it_runs_and_the_layout_holds(
    watched: Watched, files: dict[str, Path], name: str
) -> None:
    shown = watched.open(files[name])
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
    watched: Watched, files: dict[str, Path], name: str
) -> None:
    shown = watched.open(files[name])
    text: str = shown.evaluate("document.body.textContent")
    assert "<script>window.executed = true</script>" in text
    assert "\u202e" not in text
    assert not set("\x00\x07\x1b") & set(text)
    text.encode()
