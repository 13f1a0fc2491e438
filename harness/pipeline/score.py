"""Stage ``score``: every measure of every arm for every query, and their means."""

import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.core.batches import Batch, code_sha256, map_batches
from harness.core.digest import of_file, of_json
from harness.core.files import held
from harness.core.records import Query
from harness.core.scores import Estimate, Scores, independent
from harness.corpus.clusters import CLUSTERS
from harness.corpus.prepared import QRELS, QUERIES, Prepared
from harness.corpus.runs import Key, Means, read_run, score_file
from harness.measures.name import span_of
from harness.measures.quality import score as score_run
from harness.measures.quality import summarise_each
from harness.pipeline import receipts
from harness.pipeline.layout import Layout
from harness.pipeline.params import ScoreParams
from harness.pipeline.receipts import check_run
from harness.stats.inference import Inference

FEWEST = 2
PART = score_file(())


def score(layout: Layout, arms: Sequence[str], params: ScoreParams) -> Means:
    """Write the values by query, and the means of all queries and of each slice."""
    data = Prepared.open(layout.data)
    for arm in arms:
        check_run(layout, arm)
    by_arm = _scored(layout, arms, params)
    values: dict[Key, Mapping[str, Scores]] = {(arm,): of for arm, of in by_arm.items()}
    layout.write(Layout.per_query, values)
    clusters, inference = data.clusters(), params.inference()
    means = estimates(by_arm, clusters, inference)
    layout.write(Layout.scores, means)
    by_slice = {
        name: estimates(
            {arm: {m: s.only(ids) for m, s in of.items()} for arm, of in by_arm.items()},
            clusters,
            inference,
        )
        for name, ids in slices(data.queries()).items()
    }
    layout.write(Layout.slices, by_slice)
    receipts.write(layout.score_receipt, _files(layout, arms))
    return means


def _scored(
    layout: Layout, arms: Sequence[str], params: ScoreParams
) -> dict[str, Mapping[str, Scores]]:
    """Score each arm in a batch of its own."""
    files = [of_file(layout.data / name) for name in (QUERIES, QRELS)]
    own = [code_sha256(), *files, params.measures]
    batches = []
    for arm in arms:
        run = layout.run(arm).absolute()
        name = f"{of_json([*own, of_file(run)])[:32]}.parquet"
        batches.append(Batch(run, layout.score_parts / name))
    with held(layout.score_parts):
        map_batches(Scoring(layout.data.absolute(), params.measures), batches)
        found = {arm: PART.read(batch.part)[()] for arm, batch in zip(arms, batches, strict=True)}
        shutil.rmtree(layout.score_parts, ignore_errors=True)
        return found


def check_scores(layout: Layout, arms: Sequence[str]) -> None:
    """Check the scores against the runs and judgements, as they are now."""
    for arm in arms:
        check_run(layout, arm)
    hint = (
        "See that every arm is among the arms of params.yaml, and run:"
        f" harness stage score --dataset {layout.root.name}"
    )
    receipts.check(layout.score_receipt, _files(layout, arms), hint)


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
    scores: Mapping[str, Mapping[str, Scores]], clusters: Mapping[str, str], inference: Inference
) -> dict[str, dict[str, Estimate]]:
    """Mean with interval of each measure that has a value for two queries or more."""
    sure = [
        (arm, measure, found)
        for arm, by_measure in scores.items()
        for measure, found in by_measure.items()
        if len(found.query_ids) >= FEWEST
        and (span_of(measure) or independent(found.query_ids, clusters) >= FEWEST)
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


@dataclass(frozen=True, slots=True)
class Scoring:
    """Scores the run of one arm on prepared data, which a process reads once."""

    data: Path
    measures: tuple[str, ...]

    def __call__(self, run_file: Path, beside: Path) -> Iterator[int]:
        data = Prepared.open(self.data)
        asked = tuple(query.query_id for query in data.queries())
        found = score_run(read_run(run_file), data.qrels(), self.measures, asked)
        PART.write(beside, {(): found})
        yield 1
