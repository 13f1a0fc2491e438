"""Small data of which every number on the explorer's page is known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from harness.core.engine import Hit
from harness.core.evidence import Agreement, ArmResult, Evidence
from harness.core.records import Document, Judgement, Qrels, Query
from harness.core.run import Row, Run, Status
from harness.core.scores import Estimate, Scores
from harness.report.inputs import Apart, Latency, QueryStage, ReportInput
from tests.make import report_inputs

ARMS = ("old", "new", "other")
QUERIES = 250
ODD = {246: 0.00002, 247: 123.456, 248: 12345.678, 249: 0.03125}
"""Values that are written in their own ways."""
LOST, FAILED, NEGATIVE, UNASKED = 7, 11, 13, 17
"""A query that loses all, one that the new arm fails, one without a value, one it was not asked."""


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
    """Give 0.5 to every query but ``values``, twice as much of RR@10 as of nDCG@10."""
    known = [at for at in range(QUERIES) if at not in {NEGATIVE, *failed}]
    found = np.array([values.get(at, 0.5) for at in known])
    undefined: dict[str, tuple[str, ...]] = {"negative_query": (f"q{NEGATIVE:03d}",)}
    undefined |= {"failed": tuple(f"q{at:03d}" for at in failed)} if failed else {}
    ids = tuple(f"q{at:03d}" for at in known)
    return {
        "nDCG@10": Scores("nDCG@10", ids, found, undefined),
        "RR@10": Scores("RR@10", ids, found * 2, undefined),
    }


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
    sides = {
        arm: ArmResult(
            arm,
            report_inputs.manifest(arm),
            runs[arm],
            scored(values[arm], (FAILED,) if arm == "new" else ()),
        )
        for arm in ARMS
    }
    queries = {
        f"q{at:03d}": Query(
            f"q{at:03d}",
            "needle words" if at == LOST else f"question {at} about thing{at % 20}",
            ("even",) if at % 2 == 0 else ("odd",),
        )
        for at in range(QUERIES)
    }
    judged = [Judgement(f"q{at:03d}", "d00", 1) for at in range(QUERIES) if at != NEGATIVE]
    judged += [
        Judgement(f"q{LOST:03d}", "d03", 2),
        Judgement(f"q{LOST:03d}", "d01", 0),
        *(Judgement(f"q{at:03d}", "d19", 1) for at in (LOST, FAILED, UNASKED)),
    ]
    means = {m: Estimate(0.5, 0.4, 0.6, 249) for m in ("nDCG@10", "RR@10")}
    whole = Estimate(-0.001, -0.0123, 0.0045, QUERIES - 2)
    qrels = Qrels.of(judged)
    return replace(
        base,
        decisions=(),
        policy=None,
        arms=sides,
        evidence={
            "step": Evidence(
                dataset, sides["old"], sides["new"],
                agreeing({LOST: "overlap", FAILED: "error", UNASKED: "skipped"}),
                agreeing({}), {}, {}, {}, qrels,
            )
        },
        means=dict.fromkeys(ARMS, means),
        slice_means={},
        differences={"step": {"nDCG@10": whole}},
        slice_differences={"step": {"odd": Estimate(-0.002, -0.03, 0.01, 124)}},
        latency=timed(),
        queries=queries,
        qrels=qrels,
        documents=lambda ids: {k: v for k, v in documents().items() if k in ids},
        place="--from out/small",
        apart=(apart(),),
    )  # fmt: skip


def apart() -> Apart:
    """Take the loss apart: words lose 0.3 by order, vectors 0.5 by documents."""
    lost = f"q{LOST:03d}"
    steps = QueryStage(0.0, -0.3), QueryStage(-0.5, 0.0)
    stages = ("words", "vectors")
    return Apart("old", "new", "nDCG@10", stages, {lost: (0.9, 0.1)}, {lost: steps})


def timed() -> Latency:
    """Race the query that loses: 1, 2 and 3 ms against 4, 4 and 7."""
    base = report_inputs.latency(ARMS[:2], ())
    race = replace(
        base.race,
        query_ids=(f"q{LOST:03d}",),
        elapsed_ns={
            "old": np.array([[1_000_000], [2_000_000], [3_000_000]]),
            "new": np.array([[4_000_000], [4_000_000], [7_000_000]]),
        },
        repeated_ns={"old": np.array([[2_500_000]]), "new": np.empty((3, 0), dtype=np.int64)},
        unseen_ns={"old": np.array([[2_500_000]]), "new": np.empty((3, 0), dtype=np.int64)},
        verified={"old": True, "new": True},
    )
    return replace(base, race=race)
