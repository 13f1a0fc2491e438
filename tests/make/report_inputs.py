"""A report's input as a real migration would give it, with text that nobody would wish for."""

import base64
import gzip
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.core.engine import Hit, Manifest
from harness.core.evidence import Agreement, ArmResult, Evidence, Race, Stolen
from harness.core.gate import Cause, Finding, StepDecision, Verdict
from harness.core.records import Document, Judgement, Qrels, Query
from harness.core.run import Row, Run, Status
from harness.core.scores import Estimate, Paired, Scores
from harness.report import html
from harness.report.inputs import (
    ArmPart,
    CountsPart,
    DigestsPart,
    Latency,
    PolicyPart,
    ProvenancePart,
    ReportInput,
)
from harness.report.page.view import document

SHA = "3f0c" * 16
SEED = 20261121
QUERIES = 40
MEASURES = ("nDCG@10", "RR@10", "R@50")
HOSTILE = (
    "<script>alert('query')</script>",
    "</script><img src=x onerror=alert(1)>",
    "rtl \u202eevil\u202c \u200fmark",
    "nul \x00 bell \x07 escape \x1b[31m surrogate \ud800",
    "pipe | newline \n# heading | `code` [link](https://example.org) @somebody",
    "{{ 7 * 7 }} {% raw %} ${x} $\\frac{1}{2}$ \u2028 ]]> -->",
    "very long " * 300,
)
PARTS = ("play", "dex", "head", "thread", "word")
WORDS = tuple(f"{a}{b}" for a in ("re", "in", "sub", "over") for b in PARTS)


def text_of(rng: np.random.Generator, words: int) -> str:
    """Words in a random order."""
    return " ".join(rng.choice(WORDS, words))


def queries() -> Mapping[str, Query]:
    """Forty queries of three slices, the first ones hostile."""
    rng = np.random.default_rng(1)
    found = {}
    for at in range(QUERIES):
        query_id = f"q{at:02d}"
        text = HOSTILE[at] if at < len(HOSTILE) else text_of(rng, 2 + at % 4)
        part = ("identifier", "phrase", "natural language")[at % 3]
        found[query_id] = Query(query_id, text, (part,))
    return found


def documents() -> Mapping[str, Document]:
    """Two hundred documents, some hostile."""
    rng = np.random.default_rng(2)
    found = {}
    for at in range(200):
        doc_id = f"d{at:03d}"
        hostile = HOSTILE[at % len(HOSTILE)] if at % 10 == 0 else ""
        title = f"{hostile} {text_of(rng, 4)}".strip()
        found[doc_id] = Document(doc_id, title, f"{text_of(rng, 60)} {hostile}")
    return found


def page_of(*reports: ReportInput) -> str:
    """Write the page of decisions, with its script."""
    return html.to_page(document(reports), scripted=True)


def lookup(ids: frozenset[str]) -> Mapping[str, Document]:
    """Fetch documents; one of them has left the corpus."""
    known = documents()
    return {doc_id: known[doc_id] for doc_id in ids if doc_id != "d007"}


def qrels() -> Qrels:
    """Grades 0 to 3; the last query is negative."""
    rng = np.random.default_rng(3)
    rows = []
    for at in range(QUERIES - 1):
        grades = rng.integers(0, 4, 30)
        grades[at % 30] = 3
        rows += [Judgement(f"q{at:02d}", f"d{at + i:03d}", int(grades[i])) for i in range(30)]
    return Qrels.of([*rows, Judgement(f"q{QUERIES - 1:02d}", "d000", 0)])


def manifest(arm: str) -> Manifest:
    """Return the identity of an arm."""
    engine, settings = arm.partition("-")[0], arm.encode().hex().ljust(64, "0")
    return Manifest(engine, "1.2.3", 200, SHA, settings)


def scores(measure: str, values: NDArray[np.float64], failed: tuple[str, ...] = ()) -> Scores:
    """One value a query but for the failed ones and the negative one."""
    ids = [f"q{at:02d}" for at in range(QUERIES - 1)]
    keep = [q not in failed for q in ids]
    kept = tuple(q for q in ids if q not in failed)
    undefined: dict[str, tuple[str, ...]] = {"negative_query": (f"q{QUERIES - 1:02d}",)}
    if failed:
        undefined["failed"] = failed
    return Scores(measure, kept, values[: QUERIES - 1][keep], undefined)


def side(arm: str, lift: float, seed: int, failed: tuple[str, ...] = ()) -> ArmResult:
    """Make an arm whose quality is ``lift`` above the common one."""
    rng, common = np.random.default_rng(seed), np.random.default_rng(4)
    rows = []
    for at in range(QUERIES):
        query_id = f"q{at:02d}"
        if query_id in failed:
            rows.append(Row(query_id, Status.FAILED, error="disk I/O <b>error</b> | \x00"))
            continue
        best = common.permutation(60)[:20] + at
        moved = best + rng.integers(-1, 2, 20)
        hits = [Hit(f"d{doc % 200:03d}", 1 - i / 20, -float(i)) for i, doc in enumerate(moved)]
        rows.append(Row(query_id, Status.ANSWERED, () if at == 11 else hits, SHA))
    found = {}
    for at, measure in enumerate(MEASURES):
        base = np.clip(common.beta(2, 2, QUERIES) + 0.05 * at, 0, 1)
        noise = np.where(rng.random(QUERIES) < 0.6, rng.normal(lift, 0.12, QUERIES), 0)
        found[measure] = scores(measure, np.clip(base + noise, 0, 1), failed)
    return ArmResult(arm, manifest(arm), Run.of(arm, rows), found)


def agreement(seed: int, alike: float) -> Agreement:
    """Jaccard about ``alike``, some classes, one undefined value."""
    rng = np.random.default_rng(seed)
    ids = tuple(queries())
    values = np.clip(rng.normal(alike, 0.15, QUERIES - 1), 0, 1)
    found = scores("Jaccard@10", values)
    tau = Scores("tau", (), np.array([]), {"below_two_shared": ids})
    classes = tuple(
        "error" if q == "q05" and alike < 0.9 else "exact" if at % 40 < 40 * alike**2 else "reorder"
        for at, q in enumerate(ids)
    )
    return Agreement(ids, classes, {"Jaccard@10": found, "tau": tau})


def estimate(values: NDArray[np.float64]) -> Estimate:
    """Mean with a normal interval: good enough to draw."""
    half = 1.96 * float(values.std(ddof=1)) / len(values) ** 0.5
    mean = float(values.mean())
    return Estimate(mean, mean - half, mean + half, len(values))


def means(sides: Mapping[str, ArmResult]) -> Mapping[str, Mapping[str, Estimate]]:
    """Mean of every measure of every arm."""
    return {
        arm: {m: estimate(s.values) for m, s in found.scores.items()}
        for arm, found in sides.items()
    }


def race(arms: tuple[str, ...]) -> Race:
    """Log-normal times of every arm in four processes, one of them unverified."""
    rng = np.random.default_rng(5)

    def times(arm: str, texts: int) -> NDArray[np.int64]:
        centre = 13.2 + 0.6 * arms.index(arm)
        return rng.lognormal(centre, 0.5, (4, texts)).astype(np.int64)

    return Race(
        query_ids=tuple(queries()),
        elapsed_ns={arm: times(arm, QUERIES) for arm in arms},
        lost_ns={arm: np.zeros((4, QUERIES), dtype=np.int64) for arm in arms},
        turns={arm: np.full((4, QUERIES), at) for at, arm in enumerate(arms)},
        repeated_ns={arm: times(arm, 5) for arm in arms},
        unseen_ns={arm: times(arm, QUERIES) for arm in arms},
        reference_ns=np.full((4, 2), 1_250_000),
        stolen={arm: Stolen(0.004, 0.012, 0.0, 0.0, 0.02, 0.97) for arm in arms},
        verified={arm: arm != arms[-1] for arm in arms},
        machine="Imaginary CPU 3000, 4 cores, Linux 6.1",
        raced_at="2026-11-21T20:00:00Z",
    )


def latency(arms: tuple[str, ...], comparisons: tuple[str, ...]) -> Latency:
    """Percentiles, ratios, the A/A control of the first arm, and a cache of the second."""
    found = race(arms)

    def row(arm: str) -> Mapping[str, Estimate]:
        times = found.elapsed_ns[arm]
        at = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
        return {
            name: Estimate(float(v := np.quantile(times, q)), 0.9 * float(v), 1.2 * float(v), 400)
            for name, q in at.items()
        } | {"max": Estimate(float(times.max()), float(times.max()), float("inf"), 400)}

    ratio = Estimate(1.8234, 1.7012, 1.9501, QUERIES)
    return Latency(
        found,
        {arm: row(arm) for arm in arms},
        {name: {"mean": ratio, "p95": replace(ratio, value=1.9)} for name in comparisons},
        {arms[0]: {"mean": Estimate(1.004, 0.981, 1.029, QUERIES)}},
        {arm: Estimate(0.9 / 10**at, 0.8 / 10**at, 1.0 / 10**at, 5) for at, arm in enumerate(arms)},
        {arm: Estimate(1.1, 0.9, 1.2, 5) for arm in arms},
    )


def provenance(arms: tuple[str, ...]) -> ProvenancePart:
    """Where the imaginary numbers come from."""
    return ProvenancePart(
        licence="CC BY 4.0", source="https://example.org/mail <archive>",
        sha256=DigestsPart(corpus=SHA, queries=SHA[::-1], qrels=SHA[2:] + SHA[:2]),
        counts=CountsPart(documents=200, queries=QUERIES, judgements=1171),
        arms={arm: ArmPart.model_validate(manifest(arm)) for arm in arms},
        packages={"ir-measures": "0.4.3", "numpy": "2.4.6"}, python="3.11.7",
        code_version="44886dd", seed=SEED, settings={},
        commands=("git checkout 44886dd", "python3 run.py demo"),
        machine="Imaginary CPU 3000, 4 cores, Linux 6.1", decided_at="2026-11-21T21:00:00Z",
        expires_at="2026-12-21T21:00:00Z", replayed_at={},
    )  # fmt: skip


def findings() -> Mapping[str, tuple[Finding, ...]]:
    """All verdicts, with and without numbers, hostile words in some."""
    quality = Finding(
        "ndcg", "non_inferior", Verdict.PASS, Cause.KEPT,
        "nDCG@10 loses at most 0.0052 with 95 % confidence, the bound is 0.02.",
        "loses less than 0.02", Estimate(0.012, -0.0052, 0.031, 39), -0.02, "nDCG@10",
        p_value=0.00003,
    )  # fmt: skip
    filters = Finding(
        "filters", "ceiling", Verdict.PASS, Cause.KEPT,
        "No filter let a document through that it excludes.",
        "at most 0", Estimate(0.0, 0.0, 0.0, 40), 0.0, "share",
    )  # fmt: skip
    overlap = Finding(
        "overlap", "floor", Verdict.INCONCLUSIVE, Cause.OPEN,
        "The interval of Jaccard@50 reaches from 0.74 to 0.83, on both sides of 0.80.",
        "at least 0.80", Estimate(0.785, 0.74, 0.83, 39), 0.80, "Jaccard@50",
        remedy="About 210 queries would settle it with power 0.8.",
    )  # fmt: skip
    latency_gate = Finding(
        "p95", "latency_ratio", Verdict.FAIL, Cause.BROKEN,
        "The p95 ratio is at least 3.4, the bound is 3.", "p95 ratio at most 3",
        Estimate(3.9, 3.4, float("inf"), 40), 3.0, "ratio", timed=True,
    )  # fmt: skip
    budget = Finding(
        "budget <p50>", "latency_budget", Verdict.PASS, Cause.KEPT,
        "p50 is at most 1.1 ms.", "p50 within 2 ms",
        Estimate(1.0e6, 0.9e6, 1.1e6, 400), 2.0e6, "ns", timed=True,
    )  # fmt: skip
    gain = Finding(
        "natural language", "superior", Verdict.INCONCLUSIVE, Cause.OPEN,
        "The slice <b>natural language</b> | has 13 queries, the policy asks for 25.",
        "gains more than 0.03", None, 0.03, "nDCG@10",
        remedy="Judge 12 more queries of the slice.",
    )  # fmt: skip
    harm = Finding(
        "identifiers", "non_inferior", Verdict.FAIL, Cause.BROKEN,
        "On identifiers nDCG@10 loses at least 0.051, the bound is 0.02.", "loses less than 0.02",
        Estimate(-0.083, -0.115, -0.051, 14), -0.02, "nDCG@10", p_value=0.0121,
    )  # fmt: skip
    return {
        "shadow": (quality, filters),
        "tantivy": (quality, filters, overlap, budget),
        "hybrid": (quality, gain, harm, latency_gate),
    }


def report(dataset: str = "mail") -> ReportInput:
    """Three arms, three steps: promoted, inconclusive, failed."""
    sides = {
        "fts5-default": side("fts5-default", 0.0, 10),
        "tantivy-default": side("tantivy-default", 0.02, 11),
        "hybrid-rrf": side("hybrid-rrf", 0.05, 12, failed=("q05",)),
    }
    fts5, tantivy, hybrid = sides.values()
    pairs = {"shadow": (fts5, fts5), "tantivy": (fts5, tantivy), "hybrid": (tantivy, hybrid)}
    asked, judged = queries(), findings()
    parts = {
        part: frozenset(q for q, query in asked.items() if part in query.slices)
        for part in ("identifier", "phrase", "natural language")
    }

    def apart(name: str, measure: str, ids: frozenset[str] = frozenset(asked)) -> Estimate:
        ours, theirs = (one.scores[measure].only(ids) for one in pairs[name])
        return estimate(Paired.of(ours, theirs).difference)

    def mean(arm: str, ids: frozenset[str]) -> Mapping[str, Estimate]:
        return {"nDCG@10": estimate(sides[arm].scores["nDCG@10"].only(ids).values)}

    evidence = {
        name: Evidence(
            dataset, *pair, agreement(20 + at, 1.0 - 0.2 * at), agreement(30, 0.99), {}, parts, {}
        )
        for at, (name, pair) in enumerate(pairs.items())
    }
    decisions = tuple(
        StepDecision(
            name, control.arm, candidate.arm, name == "shadow", judged[name],
            "tantivy" if name == "hybrid" else "",
        )
        for name, (control, candidate) in pairs.items()
    )  # fmt: skip
    return ReportInput(
        dataset=dataset,
        provenance=provenance(tuple(sides)),
        policy=PolicyPart(name="mail-migration", version="2026-11", sha256=SHA),
        decisions=decisions,
        evidence=evidence,
        arms=sides,
        means=means(sides),
        slice_means={part: {arm: mean(arm, ids) for arm in sides} for part, ids in parts.items()},
        differences={name: {m: apart(name, m) for m in MEASURES} for name in pairs},
        slice_differences={
            name: {part: apart(name, "nDCG@10", ids) for part, ids in parts.items()}
            for name in pairs
        },
        latency=latency(tuple(sides), tuple(pairs)),
        queries=asked,
        qrels=qrels(),
        documents=lookup,
        measure="nDCG@10",
    )


def rejudged(
    report_input: ReportInput, change: Callable[[StepDecision], StepDecision]
) -> ReportInput:
    """Change every decision of a report."""
    return replace(report_input, decisions=tuple(map(change, report_input.decisions)))


def compared_only(dataset: str = "bare") -> ReportInput:
    """Return the same arms without a policy, a race, slices or document texts."""
    return replace(
        report(dataset), policy=None, decisions=(), latency=None, slice_means={},
        slice_differences={},
        documents=lambda _: {},
    )  # fmt: skip


DATA = re.compile(r'<script type="application/gzip" id="(values|hits)-(\d+)">([^<]*)</script>')


def data_of(page: str) -> dict[str, Any]:
    """Return both parts of every data set, as ``values-0``, ``hits-0``, ..."""
    return {
        f"{kind}-{number}": json.loads(gzip.decompress(base64.b64decode(data, validate=True)))
        for kind, number, data in DATA.findall(page)
    }
