"""How long the explorer takes until a person can use it, and how big its file is.

python3 run.py python benchmarks/pages.py [--queries 1000 10000] [--rounds 5]

For each number of queries a report is generated (three arms that show 100 documents of a corpus of
as many documents as queries), written, and opened in a Chromium without a network, each time in a
new tab. The clock is the browser's own, from the beginning of the navigation: to the table that can
be filtered, and to the rankings being unpacked. Then three answers to a person are timed, each with
its layout: letters typed into the search, another sort, a query opened. Times are medians.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from time import perf_counter

import numpy as np
from numpy.typing import NDArray
from playwright.sync_api import Browser, Page, sync_playwright

from harness.core.engine import Manifest
from harness.core.evidence import Agreement, ArmResult, Evidence
from harness.core.qrels import Qrels
from harness.core.records import Document, Judgement, Query
from harness.core.run import Run
from harness.core.scores import Estimate, Scores
from harness.report.explore.page import hits, pack, to_explorer
from harness.report.explore.values import values
from harness.report.inputs import Provenance, ReportInput

ARMS = ("fts5", "tantivy", "hybrid")
MEASURES = ("nDCG@10", "nDCG@50", "RR@10", "P@10", "R@50", "R@100", "AP@100", "Judged@10")
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
DEPTH, JUDGED, WORDS, SHA = 100, 4, 30_000, "0" * 64
TYPED = "document.querySelector('#text').value = 'ab'"
INPUT = "document.querySelector('#text').dispatchEvent(new Event('input'))"
MARK = "name => performance.getEntriesByName(name)[0].startTime"
DOES = {
    "type": f"{TYPED}; {INPUT}",
    "sort": "document.querySelector('[data-sort=candidate]').click()",
}


def report(queries: int, seed: int = 1) -> ReportInput:
    """Generate as many documents as queries, and three arms over them."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(2, 11, WORDS)
    letters = np.array(list("abcdefghijklmnopqrstuvwxyz"))
    words = np.array(["".join(rng.choice(letters, length)) for length in lengths])

    def text(count: int) -> str:
        drawn = np.minimum(rng.zipf(1.3, count) - 1, WORDS - 1)
        return " ".join(words[drawn])

    asked = {f"q{at:05d}": text(5) for at in range(queries)}
    corpus = {f"d{at:05d}": Document(f"d{at:05d}", text(6), text(80)) for at in range(queries)}
    ids = tuple(asked)
    arms = {arm: side(arm, ids, tuple(corpus), rng) for arm in ARMS}
    judged = [
        Judgement(query_id, f"d{doc:05d}", int(grade))
        for query_id in ids
        for doc, grade in zip(rng.choice(queries, JUDGED, replace=False), (0, 1, 1, 2), strict=True)
    ]
    parts = {f"part {at}": frozenset(ids[at::4]) for at in range(4)}
    agreement = agree(ids, rng)
    evidence = {
        f"step {at}": Evidence(
            "made", arms[ARMS[at]], arms[ARMS[at + 1]], agreement, agreement, {}, parts, {}, None
        )
        for at in range(2)
    }
    mean = Estimate(0.5, 0.4, 0.6, queries)
    means = {arm: dict.fromkeys(MEASURES, mean) for arm in ARMS}
    return ReportInput(
        provenance=provenance(queries),
        policy=None,
        decisions=(),
        evidence=evidence,
        arms=arms,
        means=means,
        slice_means=dict.fromkeys(parts, means),
        differences=dict.fromkeys(evidence, means[ARMS[0]]),
        slice_differences={},
        latency=None,
        queries={q: Query(q, asked[q], (f"part {at % 4}",)) for at, q in enumerate(ids)},
        qrels=Qrels.of(judged),
        documents=lambda wanted: {doc: corpus[doc] for doc in wanted},
        measure=MEASURES[0],
    )


def side(
    arm: str, ids: Sequence[str], corpus: tuple[str, ...], rng: np.random.Generator
) -> ArmResult:
    """Draw what an arm shows, and values of every measure."""
    depth = min(DEPTH, len(corpus))
    shown = np.stack([rng.choice(len(corpus), depth, replace=False) for _ in ids])
    count = len(ids)
    run = Run(
        arm=arm,
        query_ids=tuple(ids),
        vocabulary=corpus,
        offsets=np.arange(count + 1, dtype=np.int64) * depth,
        docs=shown.astype(np.int32).ravel(),
        score=np.tile(np.linspace(1, 0, depth), count),
        raw_score=np.tile(np.linspace(1, 0, depth), count),
        status=np.zeros(count, dtype=np.uint8),
        served_by=("",) * count,
        errors=("",) * count,
        duplicates=np.zeros(count, dtype=np.int32),
    )
    drawn = {m: Scores(m, tuple(ids), scored(rng, count), {}) for m in MEASURES}
    return ArmResult(arm, Manifest(arm, "1", len(corpus), SHA, SHA), run, drawn)


def scored(rng: np.random.Generator, count: int) -> NDArray[np.float64]:
    """Draw values as nDCG has them: many of few, some of their own."""
    usual = rng.choice(1 / np.log2(np.arange(2, 12)), count)
    return np.where(rng.random(count) < 0.5, usual, rng.random(count).round(4))  # noqa: PLR2004


def agree(ids: Sequence[str], rng: np.random.Generator) -> Agreement:
    """Draw classes and overlap."""
    classes = tuple(rng.choice(["exact", "reorder", "overlap", "disjoint"], len(ids)).tolist())
    overlap = Scores("Jaccard@10", tuple(ids), rng.choice(np.arange(11) / 10, len(ids)), {})
    return Agreement(tuple(ids), classes, {"Jaccard@10": overlap})


def provenance(queries: int) -> Provenance:
    """Say where the numbers come from, as far as a page of the explorer asks."""
    return Provenance(
        "made", "", "", SHA, SHA, SHA, queries, ("title", "text"), queries, queries * JUDGED,
        {}, {}, "", "", 1, (), "", "", None,
    )  # fmt: skip


@contextmanager
def browser() -> Iterator[Browser]:
    """Start a Chromium that is on the path."""
    found = next((path for name in NAMES if (path := shutil.which(name))), None)
    if found is None:
        raise SystemExit(f"no browser on the path (looked for {', '.join(NAMES)})")
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=found, chromium_sandbox=False)
        yield started
        started.close()


def opened(of: Browser, file: Path) -> Mapping[str, float]:
    """Open the page in a new tab and use it; milliseconds by what was waited for."""
    with of.new_context(offline=True, viewport={"width": 1280, "height": 900}) as context:
        page = context.new_page()
        page.goto(file.as_uri())
        page.wait_for_selector("html[data-ready=all]")
        found = {mark: float(page.evaluate(MARK, mark)) for mark in ("table", "all")}
        found |= {name: answered(page, does) for name, does in DOES.items()}
        page.evaluate("document.querySelector('#clear').click()")
        link = "document.querySelector('#rows a').click()"
        panel = "new Promise(done => { const look = () => document.querySelector('#panel .ranking')"
        wait = f"{panel} ? done() : setTimeout(look, 1); look() }})"
        return found | {"open": answered(page, f"{link}; await {wait}")}


def answered(page: Page, does: str) -> float:
    """Time one deed and the layout after it, in the browser, in milliseconds."""
    timed = (
        f"async () => {{ const from = performance.now(); {does};"
        " document.body.offsetHeight; return performance.now() - from }"
    )
    took: float = page.evaluate(timed)
    return took


def say(cells: Sequence[str]) -> None:
    """Write a row of the table."""
    sys.stdout.write(f"| {' | '.join(cells)} |\n")
    sys.stdout.flush()


def main() -> None:
    """Print one row for each number of queries."""
    asked = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    asked.add_argument("--queries", type=int, nargs="+", default=[1_000, 10_000])
    asked.add_argument("--rounds", type=int, default=5)
    said = asked.parse_args()
    heads = ("queries", "MB", "table MB", "rankings MB", "made s", "table ms", "all ms")
    say((*heads, "type ms", "sort ms", "open ms"))
    say(("---:",) * 10)
    with tempfile.TemporaryDirectory() as folder, browser() as started:
        for queries in said.queries:
            data = report(queries)
            file = Path(folder) / f"{queries}.html"
            from_ = perf_counter()
            file.write_text(to_explorer([data]), encoding="utf-8")
            made = perf_counter() - from_
            parts = [len(pack(values(data))), len(pack(hits(data)))]
            rounds = [opened(started, file) for _ in range(said.rounds)]
            sizes = [size / 1e6 for size in (file.stat().st_size, *parts)]
            times = [median(one[name] for one in rounds) for name in rounds[0]]
            cells = (f"{queries:,}", *(f"{mb:.1f}" for mb in sizes), f"{made:.1f}")
            say((*cells, *(f"{ms:.0f}" for ms in times)))


if __name__ == "__main__":
    main()
