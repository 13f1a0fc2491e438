"""Search an arm's settings on judged queries, and write the arm, and what the search has seen."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from engines import registry
from engines.registry import Arm
from harness.core.batches.source import code_sha256
from harness.core.clusters import BY_TEXT
from harness.core.digest import of_files, of_json
from harness.core.errors import BadFile, BadPolicy, EvidenceError, InvalidArm, UnknownName
from harness.core.files import write_text
from harness.core.progress import progress
from harness.core.records import Scalar
from harness.core.run import Row, Run, Status
from harness.corpus.prepared import Prepared
from harness.corpus.tuning import (
    SUFFIX,
    Difference,
    Elsewhere,
    Seen,
    TuningRecord,
    digests_of,
)
from harness.measures.quality import score
from harness.stages.index import sources
from harness.stages.params import ReplayParams
from harness.stages.tune.answers import Answers, Collection
from harness.stages.tune.cells import CandidateFailed, Cells
from harness.stages.tune.space import SearchTable, Space
from harness.stages.tune.written import arm_text
from harness.stats.bootstrap import bca
from harness.stats.selection import Floats, Ints, Rows, Search, Selection, select


@dataclass(frozen=True, slots=True)
class TuneRequest:
    """What to tune, and on what."""

    arm: str
    """Name, or path to a TOML file."""
    space: Space
    space_file: Path
    data: Sequence[Prepared]
    replay: ReplayParams
    to: Path
    """The TOML file to write; the record is written beside it."""
    folder: Path
    """Where indexes and values are kept; a killed search goes on from there."""
    cache: Path


@dataclass(frozen=True, slots=True)
class Tuned:
    """What came out."""

    record: TuningRecord
    path: Path
    """Of the record."""


def tune(wanted: TuneRequest) -> Tuned:
    """Choose among all combinations of the space, and write the arm and its record.

    Raises:
        BadFile: a value of the space is not one for this arm.
        EvidenceError: a collection has too few queries, two are called the same, or each candidate
            failed.
        InvalidArm: the arm as it is given fails at a query, or an index cannot be built.
    """
    search = wanted.space.search
    given = registry.load(wanted.arm, wanted.cache)
    candidates = wanted.space.candidates
    arms = [_candidate(wanted, one) for one in candidates]
    arm_text(given.path, candidates[0], wanted.to.stem + SUFFIX)
    collections = tuple(_collection(data, search.measure) for data in wanted.data)
    names = [one.data.manifest.name for one in collections]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise EvidenceError(f"two data sets are called {twice[0]}; name each once")
    rows = _rows(collections, search.seed)
    code = of_json([code_sha256(), of_files(sources(given))])
    queries = sum(len(one.queries) for one in collections)
    with progress(f"tuning {given.name}", queries * (len(arms) + 1)) as advance:
        k, limit, indexes = wanted.replay.k, wanted.replay.time_limit_s, wanted.folder / "index"
        answers = Answers((*arms, given), k, limit, indexes, code)
        cells = Cells(answers, collections, search.measure, wanted.folder / "values", advance)
        try:
            before = cells(len(arms), rows.everything)
        except CandidateFailed as exc:
            raise InvalidArm(f"{given.path}: fails as it is given, at {exc}") from exc
        left, found, failed = _selected(cells, rows, len(arms), search)
    chosen = [candidates[at] for at in left]
    text = arm_text(given.path, chosen[found.best], wanted.to.stem + SUFFIX)
    gain = _difference(rows.weights() * (found.held_out - before), rows.cluster, search)
    record = TuningRecord(
        arm=given.name,
        base=of_files(sources(given)),
        measure=search.measure,
        k=wanted.replay.k,
        seed=search.seed,
        folds=search.folds,
        confidence=search.confidence,
        resamples=search.resamples,
        first=search.first,
        keep=search.keep,
        space={key: tuple(values) for key, values in wanted.space.values.items()},
        settings=chosen[found.best],
        candidates=len(arms),
        failed={said(candidates[at]): told for at, told in failed.items()},
        given=rows.mean(rows.everything, before),
        apparent=found.apparent,
        expected=found.expected,
        gain=gain,
        collections=tuple(
            _seen(one, _elsewhere(at, found, chosen, rows, cells, left, before, search))
            for at, one in enumerate(collections)
        ),
    )
    path = wanted.to.with_name(wanted.to.stem + SUFFIX)
    write_text(path, record.model_dump_json(indent=2) + "\n")
    write_text(wanted.to, text)
    shutil.rmtree(indexes, ignore_errors=True)
    return Tuned(record, path)


def said(settings: Mapping[str, Scalar]) -> str:
    """Give a candidate's values in one line."""
    return ", ".join(f"{key} = {value}" for key, value in settings.items())


def _candidate(wanted: TuneRequest, one: Mapping[str, Scalar]) -> Arm:
    try:
        return registry.load(wanted.arm, wanted.cache, one)
    except BadPolicy as exc:
        problem = f"{said(one)}: {exc.problem}"
        raise BadFile(wanted.space_file, problem, "Give values that the arm may have") from exc
    except UnknownName as exc:
        hint = "Search settings that the arm's file has"
        raise BadFile(wanted.space_file, str(exc), hint) from exc


def _collection(data: Prepared, measure: str) -> Collection:
    """Take the judged queries for which the measure is defined."""
    qrels, queries = data.qrels(), data.queries()
    judged = [query for query in queries if query.query_id in qrels.grades]
    if not judged:
        raise EvidenceError(f"{data.manifest.name}: has no judged query to tune on")
    ids = [query.query_id for query in judged]
    nothing = Run.of("nothing", (Row(query_id, Status.ANSWERED) for query_id in ids))
    defined = score(nothing, qrels, [measure], ids)[measure].by_query
    kept = tuple(query for query in judged if query.query_id in defined)
    if not kept:
        raise EvidenceError(f"{data.manifest.name}: has no judged query with a value of {measure}")
    return Collection(data, kept, qrels)


def _rows(collections: Sequence[Collection], seed: int) -> Rows:
    """Give a row to each query; near duplicates and queries of one intent are one cluster."""
    names, labels = [], []
    for one in collections:
        clusters = one.data.clusters(BY_TEXT)
        for query in one.queries:
            names.append(one.data.manifest.name)
            labels.append(clusters.get(query.query_id, f"query {query.query_id}"))
    return Rows.of(names, labels, seed)


def _selected(
    cells: Cells, rows: Rows, candidates: int, search: SearchTable
) -> tuple[list[int], Selection, dict[int, str]]:
    """Select among the candidates that fail at no query; begin anew without one that does."""
    left, failed = list(range(candidates)), {}
    while left:
        first = search.first or len(rows.everything)

        def values(candidate: int, asked: Ints, among: Sequence[int] = tuple(left)) -> Floats:
            return cells(among[candidate], asked)

        try:
            found = select(values, rows, Search(len(left), first, search.keep), search.folds)
        except CandidateFailed as exc:
            failed[exc.candidate] = str(exc)
            left.remove(exc.candidate)
        else:
            return left, found, failed
    raise EvidenceError(f"each candidate failed; the last one at {[*failed.values()][-1]}")


def _elsewhere(  # noqa: PLR0917  all of it is the search
    at: int,
    found: Selection,
    chosen: Sequence[dict[str, Scalar]],
    rows: Rows,
    cells: Cells,
    left: Sequence[int],
    before: Floats,
    search: SearchTable,
) -> Elsewhere | None:
    """Judge the choice of the other collections on collection ``at``; None for a single one."""
    if not found.elsewhere:
        return None
    code = rows.collection[_first_row(cells.collections, at)]
    mine, choice = np.flatnonzero(rows.collection == code), found.elsewhere[code]
    values = cells(left[choice], mine)
    gain = _difference(values - before[mine], rows.cluster[mine], search)
    return Elsewhere(settings=chosen[choice], value=float(values.mean()), gain=gain)


def _first_row(collections: Sequence[Collection], at: int) -> int:
    return sum(len(one.queries) for one in collections[:at])


def _difference(values: Floats, clusters: Ints, search: SearchTable) -> Difference:
    estimate = bca(
        values,
        confidence=search.confidence,
        resamples=search.resamples,
        seed=search.seed,
        clusters=clusters,
    )
    return Difference(value=estimate.value, low=estimate.low, high=estimate.high)


def _seen(collection: Collection, elsewhere: Elsewhere | None) -> Seen:
    of = collection.data.manifest
    judged = collection.qrels.grades.keys()
    return Seen(
        dataset=of.name,
        split=of.split,
        corpus=of.corpus_sha256,
        queries=of.queries_sha256,
        qrels=of.qrels_sha256,
        words=digests_of(query for query in collection.data.queries() if query.query_id in judged),
        left_out=elsewhere,
    )
