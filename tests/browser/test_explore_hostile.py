"""Whatever queries, documents and arms are called, the explorer shows it and holds its shape."""

from __future__ import annotations

import gzip
import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from harness.core.evidence import ArmResult
from harness.core.records import Document, Query
from harness.core.run import Row, Run
from harness.report.explorer import to_explorer
from harness.report.html import explore_link
from harness.report.inputs import ReportInput
from tests.browser import explored
from tests.browser.watched import Watched
from tests.make.explorer_data import DATA

pytestmark = pytest.mark.slow

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


def kept(page: Page, name: str) -> None:
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
    kept(page, f"hostile-table-{width}")


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
    kept(page, f"hostile-query-{at}-{width}")
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
