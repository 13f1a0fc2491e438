"""Stage ``score``: every measure of every arm for every query, and their means."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from harness.core.batches.batch import Batch
from harness.core.batches.mapping import current, map_batches
from harness.core.batches.source import code_sha256
from harness.core.clusters import independent
from harness.core.digest import of_file, of_json
from harness.core.durable.locks import held
from harness.core.files import write_json, write_text
from harness.core.qrels import Qrels
from harness.core.records import Query
from harness.core.scores import Estimate, Scores
from harness.corpus.clusters import CLUSTERS
from harness.corpus.prepared import QRELS, QUERIES, Prepared
from harness.corpus.runs import read_run
from harness.corpus.score_table import Key, write_scores
from harness.measures.quality import REASONS
from harness.measures.quality import score as score_run
from harness.measures.spans import span_of
from harness.measures.summary import summarise_each
from harness.stages.custody import receipt
from harness.stages.custody.proof import check_run
from harness.stages.layout import Layout
from harness.stages.params import ScoreParams
from harness.stages.score.means import Means, as_csv, as_json
from harness.stats.inference import Inference

FEWEST = 2
"""An interval needs at least two queries."""


def score(layout: Layout, arms: Sequence[str], params: ScoreParams, *, threads: int = 1) -> Means:
    """Write the values by query, and the means of all queries and of each slice.

    Intervals are drawn on so many threads, and are the same on any number.

    Raises:
        EvidenceError: an arm was not replayed, or its index or the queries changed since.
    """
    data = Prepared.open(layout.data)
    for arm in arms:
        check_run(layout, arm)
    queries = data.queries()
    judged = Judged(tuple(query.query_id for query in queries), data.qrels())
    found = _scored(layout, arms, params, judged)
    write_scores(layout.per_query, ["arm"], found)
    clusters = data.clusters()
    by_arm = {arm: found[(arm,)] for arm in arms}
    inference = params.inference(threads)
    means = estimates(by_arm, clusters, inference)
    write_json(layout.scores, as_json(means))
    write_text(layout.means_plot, as_csv(means, params.measures))
    by_slice = {
        name: as_json(
            estimates(
                {arm: {m: s.only(ids) for m, s in of.items()} for arm, of in by_arm.items()},
                clusters,
                inference,
            )
        )
        for name, ids in slices(queries).items()
    }
    write_json(layout.slices, by_slice)
    receipt.write(layout.score_receipt, _files(layout, arms))
    return means


def _scored(
    layout: Layout, arms: Sequence[str], params: ScoreParams, judged: Judged
) -> dict[Key, dict[str, Scores]]:
    """Score each arm in a batch of its own."""
    files = [of_file(layout.data / name) for name in (QUERIES, QRELS)]
    here = current().folder is None
    scoring = Scoring(
        (lambda: judged) if here else partial(judged_in, layout.data.absolute(), of_json(files)),
        params.measures,
    )
    own = [code_sha256(), *files, params.measures]
    batches = []
    for arm in arms:
        run = layout.run(arm).absolute()
        name = f"{of_json([*own, of_file(run)])[:32]}.npz"
        batches.append(Batch(run, layout.score_parts / name))
    with held(layout.score_parts):
        map_batches(scoring, batches)
        values = [read(batch.part, judged.asked, params.measures) for batch in batches]
        shutil.rmtree(layout.score_parts, ignore_errors=True)
    return {(arm,): dict(of) for arm, of in zip(arms, values, strict=True)}


def check_scores(layout: Layout, arms: Sequence[str]) -> None:
    """Hold the scores against the runs and judgements, as they are now.

    Raises:
        EvidenceError: an arm was not scored, or something was changed since.
    """
    for arm in arms:
        check_run(layout, arm)
    hint = (
        "See that every arm is among the arms of params.yaml, and run:"
        f" harness score --dataset {layout.root.name}"
    )
    receipt.check(layout.score_receipt, _files(layout, arms), hint)


def _files(layout: Layout, arms: Sequence[str]) -> tuple[Path, ...]:
    judged = (layout.data / name for name in (QUERIES, QRELS, CLUSTERS))
    runs = (layout.run(arm) for arm in arms)
    return (*judged, layout.per_query, layout.scores, layout.slices, *runs)


def slices(queries: Iterable[Query]) -> dict[str, frozenset[str]]:
    """Query ids by slice, slices in byte order."""
    found: dict[str, set[str]] = {}
    for query in queries:
        for name in query.slices:
            found.setdefault(name, set()).add(query.query_id)
    return {name: frozenset(found[name]) for name in sorted(found)}


def estimates(
    scores: Mapping[str, Mapping[str, Scores]],
    clusters: Mapping[str, str],
    inference: Inference,
) -> dict[str, dict[str, Estimate]]:
    """Mean with interval of each measure that has a value for two queries or more.

    Where no span of the measure is known, these must be of two clusters: a resampled interval needs
    a spread.
    """
    sure = [
        (arm, measure, found)
        for arm, by_measure in scores.items()
        for measure, found in by_measure.items()
        if _units(found, clusters) >= FEWEST
    ]
    means = summarise_each(
        [(found, span_of(measure)) for _, measure, found in sure],
        inference=inference,
        clusters=clusters,
    )
    by_arm: dict[str, dict[str, Estimate]] = {arm: {} for arm in scores}
    for (arm, measure, _), mean in zip(sure, means, strict=True):
        by_arm[arm][measure] = mean
    return by_arm


def _units(found: Scores, clusters: Mapping[str, str]) -> int:
    spanned = span_of(found.measure) is not None
    return len(found.query_ids) if spanned else independent(found.query_ids, clusters)


class Judged(NamedTuple):
    """What all arms are scored against."""

    asked: tuple[str, ...]
    """Queries in their order."""
    qrels: Qrels


@dataclass(frozen=True, slots=True)
class Scoring:
    """Scores the run of one arm."""

    judged: Callable[[], Judged]
    measures: tuple[str, ...]

    def __call__(self, run_file: Path, beside: Path) -> Iterator[int]:
        asked, qrels = self.judged()
        run = read_run(run_file)
        found = score_run(run, qrels, self.measures, asked)
        write(beside, asked, [found[name] for name in self.measures])
        yield 1


@lru_cache(maxsize=1)
def judged_in(data: Path, sha256: str) -> Judged:  # noqa: ARG001  other contents, other key
    """Read prepared data, once a process."""
    prepared = Prepared.open(data)
    return Judged(tuple(query.query_id for query in prepared.queries()), prepared.qrels())


def write(path: Path, asked: Sequence[str], scores: Sequence[Scores]) -> None:
    """Write values and reasons, shape (measures, queries) both."""
    place = {query_id: at for at, query_id in enumerate(asked)}
    values = np.full((len(scores), len(asked)), np.nan)
    reasons = np.full(values.shape, -1, dtype=np.int8)
    for row, one in enumerate(scores):
        values[row, [place[query_id] for query_id in one.query_ids]] = one.values
        for why, query_ids in one.undefined.items():
            reasons[row, [place[query_id] for query_id in query_ids]] = REASONS.index(why)
    with path.open("wb") as file:
        np.savez(file, allow_pickle=False, values=values, reasons=reasons)


def read(path: Path, asked: Sequence[str], measures: Sequence[str]) -> Mapping[str, Scores]:
    """Read what ``write`` wrote, by measure."""
    with path.open("rb") as file, np.load(file) as part:
        values, reasons = part["values"], part["reasons"]
    found = {}
    for name, row, why in zip(measures, values, reasons, strict=True):
        undefined: dict[str, list[str]] = {}
        for at in np.flatnonzero(why >= 0).tolist():
            undefined.setdefault(REASONS[why[at]], []).append(asked[at])
        kept = np.flatnonzero(why < 0)
        found[name] = Scores(
            name,
            tuple(asked[at] for at in kept.tolist()),
            row[kept],
            {reason: tuple(ids) for reason, ids in undefined.items()},
        )
    return found
