"""How long the stages of the documents stack take, and whether that is within their budget.

The stages are timed where they run, inside of one whole search. A round asks every question once,
in an order of its own; the first round is thrown away. Intervals are over questions and rounds, as
in the gates on latency (``harness.stats.times.percentile``), and so is the verdict: PASS
where the whole interval lies below the budget, FAIL where it lies above.
"""

import os
import random
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from harness.core.digest import of_bytes
from harness.core.gate import Verdict
from harness.core.records import Document, Query
from harness.core.scores import Estimate
from harness.corpus.beir import Beir
from harness.corpus.prepared import Prepared
from harness.gates.base.rules import below
from harness.replay.machine import machine
from harness.stats.times import percentile
from harness_engines.kept.cached import Vectors
from harness_engines.stacks.documents.arm import DocumentCollection
from harness_engines.stacks.documents.library import Bm25
from harness_engines.stacks.documents.ranking import Late, Pipeline, Sparse
from harness_engines.stacks.documents.texts import Cutting, DocumentText, chunks, of_document

BUDGET = Path(__file__).with_suffix(".toml")
Clock = Callable[[], int]
Rows = NDArray[np.int64]
Spans = dict[str, int]
"""Nanoseconds of each stage of one search."""


class Judged(NamedTuple):
    """What is searched and asked."""

    documents: Callable[[], Iterator[Document]]
    queries: tuple[Query, ...]

    @classmethod
    def read(cls, folder: Path) -> "Judged":
        """Read prepared data or a folder in BEIR layout."""
        if (folder / "manifest.json").is_file():
            data = Prepared.open(folder)
            return cls(data.documents, data.queries())
        beir = Beir(folder, "test")
        judged = beir.qrels().grades
        return cls(beir.documents, tuple(one for one in beir.queries() if one.query_id in judged))


class Budget(NamedTuple):
    """The file beside this one."""

    chunks: int
    percent: float
    confidence: float
    resamples: int
    seed: int
    budget_ms: Mapping[str, float]

    @classmethod
    def read(cls, path: Path) -> "Budget":
        """Read the file; a key that is missing or unknown is a TypeError that names it."""
        return cls(**tomllib.loads(path.read_text(encoding="utf-8")))


@dataclass(frozen=True)
class Watch:
    """Notes when something was done, by the name of it."""

    clock: Clock
    marks: dict[str, int] = field(default_factory=dict)

    def mark(self, name: str) -> None:
        """Note the time."""
        self.marks[name] = self.clock()


@dataclass(frozen=True)
class WatchedRecall:
    """Stage 1, and when it was done."""

    recall: Bm25
    watch: Watch

    def search(self, text: str, limit: int, allowed: NDArray[np.bool_] | None = None) -> Rows:
        """Ask and note."""
        found = self.recall.search(text, limit, allowed)
        self.watch.mark("recalled")
        return found


@dataclass(frozen=True)
class WatchedDense(Vectors):
    """E1, and when it was done."""

    watch: Watch

    def cosines(self, text: str, rows: Rows) -> NDArray[np.float64]:
        found = super().cosines(text, rows)
        self.watch.mark("dense")
        return found


@dataclass(frozen=True)
class WatchedSparse(Sparse):
    """E6, and when it was done."""

    watch: Watch

    def dots(self, text: str, rows: Rows) -> NDArray[np.float64]:
        found = super().dots(text, rows)
        self.watch.mark("sparse")
        return found


@dataclass(frozen=True)
class WatchedLate(Late):
    """E12, and when stage 2 was done, fusion and order with it."""

    watch: Watch

    def maxsims(self, text: str, rows: Rows) -> NDArray[np.float64]:
        self.watch.mark("ranked")
        return super().maxsims(text, rows)


def watched(pipeline: Pipeline, watch: Watch) -> Pipeline:
    """Put the watch beside every stage.

    Raises:
        SystemExit: a model is missing.
    """
    found = pipeline.models
    if not (found.dense and found.sparse and found.late):
        raise SystemExit(f"models are missing: {found.missing}")
    whole = found.dense
    dense = WatchedDense(whole.embedder, whole.vectors, whole.made_at, watch)
    sparse = WatchedSparse(found.sparse.encoder, found.sparse.store, watch)
    late = WatchedLate(found.late.embedder, found.late.projection, found.late.tokens, watch)
    models = replace(found, dense=dense, sparse=sparse, late=late)
    return replace(pipeline, recall=WatchedRecall(pipeline.recall, watch), models=models)


def one_search(opened: DocumentCollection, text: str, clock: Clock) -> Spans | None:
    """Time the stages of one search, and whole answers of both tiers; None where words find none.

    Without a hit the stages after recall do not run, and their time is no time.
    """
    watch = Watch(clock)
    pipeline = watched(opened.pipeline, watch)
    watch.mark("began")
    if not len(pipeline.rank(text).rows):
        return None
    watch.mark("reranked")
    free = replace(opened.pipeline, models=replace(opened.pipeline.models, late=None))
    replace(opened, pipeline=free).search(text, 10)
    watch.mark("free")
    opened.search(text, 10)
    watch.mark("pro")
    at = watch.marks
    return {
        "1 recall": at["recalled"] - at["began"],
        "2 rank: E1": at["dense"] - at["recalled"],
        "2 rank: E6": at["sparse"] - at["dense"],
        "2 rank": at["ranked"] - at["recalled"],
        "3 rerank": at["reranked"] - at["ranked"],
        "free, answer and citations": at["free"] - at["reranked"],
        "pro, answer and citations": at["pro"] - at["free"],
    }


def timed(
    opened: DocumentCollection, questions: Sequence[str], rounds: int, clock: Clock, seed: int
) -> dict[str, NDArray[np.int64]]:
    """Nanoseconds by stage, each of shape (questions that found something, rounds)."""
    dice = random.Random(seed)
    kept: list[list[Spans | None]] = [[] for _ in questions]
    for _ in range(rounds + 1):
        order = list(range(len(questions)))
        dice.shuffle(order)
        for number in order:
            kept[number].append(one_search(opened, questions[number], clock))
    found = [[spans for spans in row[1:] if spans] for row in kept if row[0] is not None]
    names = found[0][0] if found else {}
    return {name: np.array([[one[name] for one in row] for row in found]) for name in names}


def drawn(folders: Iterable[Path], wanted: int, seed: int) -> list[str]:
    """Draw questions, as many of each collection as of the others."""
    dice = random.Random(seed)
    asked = [[query.text for query in Judged.read(folder).queries] for folder in folders]
    share = -(-wanted // len(asked))
    return [text for texts in asked for text in dice.sample(texts, min(share, len(texts)))][:wanted]


def enough(folders: Iterable[Path], cutting: Cutting, wanted: int) -> Iterator[DocumentText]:
    """Take documents until there are ``wanted`` chunks; one whose text was there is passed over."""
    made = 0
    seen: set[str] = set()
    for folder in folders:
        for document in Judged.read(folder).documents():
            name = f"{folder.parent.name}-{folder.name}/{document.doc_id}"
            source = of_document(replace(document, doc_id=name))
            cut = [chunk.text for chunk in chunks(source, cutting)]
            key = of_bytes("".join(cut).encode())
            if made < wanted and key not in seen:
                seen.add(key)
                made += len(cut)
                yield source


def table(
    spans: Mapping[str, NDArray[np.int64]], texts: Sequence[str], budget: Budget, about: str
) -> Iterator[str]:
    """Percentiles with their intervals beside the budget; ``texts`` are those of all chunks."""
    load = " ".join(f"{value:.1f}" for value in os.getloadavg())
    asked, rounds = next(iter(spans.values())).shape if spans else (0, 0)
    yield f"{len(texts)} chunks, {len(set(texts))} different texts; {asked} questions,"
    yield f"{rounds} rounds; {about}; {machine()}; load {load}\n"
    yield f"| stage | p50 ms | p{budget.percent:g} ms | budget ms | verdict |"
    yield "|---|---|---|---|---|"
    for name, times in spans.items():
        middle, slow = (_in_ms(times, percent, budget) for percent in (50.0, budget.percent))
        bound = budget.budget_ms.get(name)
        verdict = "" if bound is None else verdict_of(slow, bound, len(texts), budget).upper()
        shown = "" if bound is None else f"{bound:g}"
        yield f"| {name} | {_shown(middle)} | {_shown(slow)} | {shown} | {verdict} |"
    yield ""


def verdict_of(slow: Estimate, bound: float, count: int, budget: Budget) -> Verdict:
    """Judge one stage; a collection that is too small decides nothing."""
    return below(slow, bound) if count >= budget.chunks else Verdict.INCONCLUSIVE


def _in_ms(times: NDArray[np.int64], percent: float, budget: Budget) -> Estimate:
    found = percentile(times.T, percent, confidence=budget.confidence)
    return Estimate(found.value / 1e6, found.low / 1e6, found.high / 1e6, found.n)


def _shown(estimate: Estimate) -> str:
    return f"{estimate.value:.2f} [{estimate.low:.2f}, {estimate.high:.2f}]"
