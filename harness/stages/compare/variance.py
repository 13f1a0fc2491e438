"""Differences of two arms on several corpora, or by the judgements of several assessors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from harness.core.errors import EvidenceError
from harness.core.scores import Paired
from harness.corpus import trec
from harness.corpus.prepared import Prepared
from harness.corpus.runs import read_run
from harness.corpus.score_table import read_scores
from harness.measures.name import parse
from harness.measures.quality import score
from harness.stages.layout import Layout
from harness.stages.score.stage import check_scores
from harness.stats.components import Components, of_assessors, of_corpora

Floats = NDArray[np.float64]


class Compared(NamedTuple):
    """Two arms by one measure."""

    control: str
    candidate: str
    measure: str


class Varied(NamedTuple):
    """What varies beside the queries, and what it adds."""

    means: Mapping[str, float]
    """Mean difference by corpus or by file of judgements."""
    queries: Mapping[str, int]
    """Queries by the same names."""
    components: Components


def over_corpora(layouts: Sequence[Layout], asked: Compared, *, confidence: float) -> Varied:
    """Take the differences on several data sets apart.

    Raises:
        EvidenceError: an arm was not scored by the measure, scores were changed since, a data set
            comes twice, or there are too few.
        UnknownName: the measure is not known.
    """
    found: dict[str, Floats] = {}
    for layout in layouts:
        name = layout.root.name
        if name in found:
            raise EvidenceError(f"{name} comes twice; a corpus is drawn once")
        found[name] = _differences(layout, asked)
    return Varied(
        {name: float(values.mean()) for name, values in found.items() if len(values)},
        {name: len(values) for name, values in found.items()},
        of_corpora(list(found.values()), confidence=confidence),
    )


def over_assessors(
    layout: Layout, files: Sequence[Path], asked: Compared, *, confidence: float
) -> Varied:
    """Score both runs by each file of judgements, and take the differences apart.

    Only queries that have a value by all of them are compared.

    Raises:
        BadFile: a run or a file of judgements cannot be read.
        EvidenceError: a file comes twice, or too few queries are judged in all.
        UnknownName: the measure is not known.
    """
    if len({path.resolve() for path in files}) < len(files):
        raise EvidenceError("a file of judgements comes twice; an assessor is drawn once")
    queries = [query.query_id for query in Prepared.open(layout.data).queries()]
    runs = [read_run(layout.run(arm)) for arm in (asked.control, asked.candidate)]
    by_file: dict[str, Mapping[str, float]] = {}
    for path in files:
        qrels = trec.qrels(path)
        one = Paired.of(
            *(score(run, qrels, (asked.measure,), queries)[asked.measure] for run in runs)
        )
        by_file[str(path)] = dict(zip(one.query_ids, one.difference.tolist(), strict=True))
    shared = [query for query in queries if all(query in one for one in by_file.values())]
    table = np.array([[one[query] for one in by_file.values()] for query in shared])
    table = table.reshape(len(shared), len(by_file))
    components = of_assessors(table, confidence=confidence)
    means = dict(zip(by_file, table.mean(axis=0).tolist(), strict=True))
    return Varied(means, dict.fromkeys(by_file, len(shared)), components)


def _differences(layout: Layout, asked: Compared) -> Floats:
    arms = (asked.control, asked.candidate)
    parse(asked.measure)
    check_scores(layout, arms)
    scores = read_scores(layout.per_query, ["arm"])
    pair = []
    for arm in arms:
        if (arm,) not in scores or asked.measure not in scores[arm,]:
            raise EvidenceError(
                f"{layout.per_query}: {arm} was not scored by {asked.measure}; add it to"
                " score.measures, and score again"
            )
        pair.append(scores[arm,][asked.measure])
    return Paired.of(*pair).difference
