"""Search an arm's settings on judged queries, and write the arm, and what the search has seen."""

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import product
from math import prod
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from harness.core import errors
from harness.core.batches import code_sha256
from harness.core.digest import of_files, of_json
from harness.core.engine import Answer, Manifest, Recombines, Searcher
from harness.core.files import replacing_folder, write_json, write_text
from harness.core.formats import json_file, toml_file
from harness.core.names import checked
from harness.core.printable import many
from harness.core.progress import progress
from harness.core.reading import text_of
from harness.core.records import Qrels, Query, Scalar
from harness.core.run import Row, Run, Status
from harness.core.scores import BY_TEXT
from harness.core.store import Artifact, StrictModel
from harness.corpus import tuning
from harness.corpus.card import toml_text
from harness.corpus.prepared import Prepared
from harness.measures.quality import score
from harness.pipeline.index import sources
from harness.pipeline.params import ReplayParams
from harness.replay.drive import observe
from harness.stats.bootstrap import bca
from harness.stats.inference import MOST_CONFIDENCE
from harness.stats.selection import Floats, Ints, Rows, Search, Selection, select
from harness_engines import registry
from harness_engines.contract import value_keys, with_values
from harness_engines.registry import Arm

MAX_CANDIDATES = 10_000
HINT = "docs/how-to/tune.md describes the file"
Values = Annotated[tuple[Scalar, ...], Field(min_length=1, strict=False)]


class SearchTable(StrictModel):
    """The table ``[search]``."""

    measure: Annotated[str, Field(min_length=1)]
    """In ir-measures notation; its mean over queries, then over data sets, is maximised."""
    folds: Annotated[int, Field(ge=2, le=100)]
    """Parts of each data set's queries; each is left out once."""
    seed: Annotated[int, Field(ge=0)]
    """Draws the folds, the order of queries and the interval."""
    confidence: Annotated[float, Field(ge=0.5, le=MOST_CONFIDENCE)]
    resamples: Annotated[int, Field(ge=1_000, le=10_000_000)]
    first: Annotated[int, Field(ge=1)] | None = None
    """Independent queries of each data set in the first round of successive halving; without it
    each candidate answers every query."""
    keep: Annotated[float, Field(gt=0, lt=1)] = 0.5
    """Share of the candidates that a round passes on to one of ``1 / keep`` times the queries."""


class Space(StrictModel):
    """What is searched, and how."""

    search: SearchTable
    space: dict[str, Values]

    @property
    def candidates(self) -> tuple[dict[str, Scalar], ...]:
        """Every combination of values, the last key's changing first."""
        combined = product(*self.space.values())
        return tuple(dict(zip(self.space, one, strict=True)) for one in combined)


def read(path: Path) -> Space:
    """Read the file."""
    return SPACES.read(path)


def _space_in(path: Path) -> Space:
    raw = toml_file(path)
    if isinstance(tables := raw.get("space"), Mapping):
        raw = {**raw, "space": dict(_flat(tables))}
    found = Space.model_validate(raw)
    count = prod(map(len, found.space.values())) if found.space else 0
    if not 1 <= count <= MAX_CANDIDATES:
        problem = f"[space] has {many(count, 'combination')} of values"
        raise errors.BadFile(path, problem, f"Give 1 to {MAX_CANDIDATES}")
    return found


SPACES = Artifact("the file of a search", _space_in, remedy=HINT)


def _flat(tables: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in tables.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{above}{key}.")
        else:
            yield f"{above}{key}", value


MARK = "# Written by harness tune, which replaces it. Copy it to change it."


def is_ours(path: Path) -> bool:
    """Return whether a file was written by this command."""
    return path.is_file() and text_of(path).startswith(MARK)


def check_place(to: Path, arm: Path, stack: str) -> None:
    """Refuse a place where the written arm would not find its code, or the arm itself."""
    if to.suffix != ".toml":
        raise errors.HarnessError(f"{to}: name a .toml file; the record is written beside it")
    checked("an arm", to.stem)
    if to.resolve() == arm.resolve():
        raise errors.HarnessError(f"{to}: is the arm that is tuned. Name another file")
    if stack.endswith(".py") and to.resolve().parent != arm.resolve().parent:
        raise errors.HarnessError(f"{to}: {stack} lies beside {arm}; name a file in {arm.parent}")


def arm_text(arm: Path, chosen: Mapping[str, Scalar], record: str) -> str:
    """Return the file of ``arm`` with ``chosen`` values, by dotted key, and its tuning record."""
    about = toml_file(arm)
    settings = with_values(about.get("settings", {}), chosen)
    return f"{MARK}\n{toml_text({**about, 'tuning': record, 'settings': settings})}"


NS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class TuningSplit:
    """Judged queries of one split."""

    data: Prepared
    queries: tuple[Query, ...]
    qrels: Qrels

    @property
    def sha256(self) -> str:
        """Digest of documents, queries and judgements."""
        of = self.data.manifest
        return of_json([of.corpus_sha256, of.queries_sha256, of.qrels_sha256])


@dataclass(frozen=True, slots=True, eq=False)
class CandidateAnswers:
    """Runs queries on candidates, once for all that differ in a repeatable last step alone."""

    arms: Sequence[Arm]
    """One for each candidate: the same stack under other settings."""
    k: int
    time_limit_s: float
    folder: Path
    code: str
    """Digest of the code that indexes are built by."""
    _legs: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    """What the last step starts from: by settings before it and collection, by query."""

    def of(self, candidate: int, at: TuningSplit, queries: Sequence[Query]) -> Iterator[Row]:
        """Yield the answer to each query."""
        arm = self.arms[candidate]
        if not isinstance(arm.engine, Recombines):
            with self._open(arm, at) as searcher:
                yield from (self._row(searcher, query) for query in queries)
            return
        legs = self._legs.setdefault((before_last_step(arm), at.sha256), {})
        lacking = [query for query in queries if query.query_id not in legs]
        failed: dict[str, Row] = {}
        if lacking:
            wanted = before_last_step(arm)
            first = next(one for one in self.arms if before_last_step(one) == wanted)
            with self._open(first, at) as searcher:
                for query in lacking:
                    noting = _Noting(arm.engine, searcher, searcher.manifest)
                    row = self._row(noting, query)
                    if row.status is Status.ANSWERED:
                        legs[query.query_id] = noting.found[0]
                    else:
                        failed[query.query_id] = row
        for query in queries:
            if query.query_id in failed:
                yield failed[query.query_id]
            else:
                hits = arm.engine.combined(legs[query.query_id], self.k)
                yield Row(query.query_id, Status.ANSWERED, hits)

    def _row(self, searcher: Searcher, query: Query) -> Row:
        return observe(searcher, query, self.k, round(self.time_limit_s * NS)).row

    @contextmanager
    def _open(self, arm: Arm, at: TuningSplit) -> Iterator[Searcher]:
        """Open an index; build it first where it is not there as a whole."""
        name = of_json([self.code, settings_of(arm.settings), at.data.manifest.corpus_sha256])
        index = self.folder / name[:16]
        if not index.is_dir():
            with replacing_folder(index) as beside:
                arm.build(at.data.documents(), beside)
        with arm.open(index) as searcher:
            yield searcher


def before_last_step(arm: Arm) -> str:
    """Digest of the settings that the last step does not depend on alone."""
    last = arm.engine.last_step if isinstance(arm.engine, Recombines) else frozenset()
    return of_json({k: v for k, v in settings_of(arm.settings).items() if k not in last})


def settings_of(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return each value by its dotted key."""
    found = {}
    for key in value_keys(settings):
        value: Any = settings
        for part in key.split("."):
            value = value[part]
        found[key] = value
    return found


@dataclass(frozen=True, slots=True)
class _Noting:
    """Answers as a searcher does, and notes what its last step started from."""

    engine: Recombines
    searcher: Searcher
    manifest: Manifest
    found: list[Any] = field(default_factory=list)

    def search(self, text: str, k: int) -> Answer:
        self.found.append(self.engine.candidates(self.searcher, text, k))
        return Answer(self.engine.combined(self.found[-1], k), self.manifest.fingerprint)


AT_ONCE = 100


class CandidateFailed(Exception):
    """A candidate failed at a query, so it has no mean."""

    def __init__(self, candidate: int, told: str) -> None:
        super().__init__(told)
        self.candidate = candidate


@dataclass(frozen=True, slots=True, eq=False)
class Cells:
    """A table with a row for each query of all collections, and a column for each candidate."""

    answers: CandidateAnswers
    collections: Sequence[TuningSplit]
    measure: str
    folder: Path
    advance: Callable[[int], object]
    _known: dict[tuple[int, int], dict[str, float]] = field(default_factory=dict)

    def __call__(self, candidate: int, rows: Ints) -> Floats:
        """Return the values of some rows under a candidate."""
        found, start = np.zeros(len(rows)), 0
        for at, collection in enumerate(self.collections):
            here = (rows >= start) & (rows < start + len(collection.queries))
            asked = [collection.queries[row - start] for row in rows[here].tolist()]
            if asked:
                found[here] = self._values(candidate, at, asked)
            start += len(collection.queries)
        return found

    def _values(self, candidate: int, at: int, asked: Sequence[Query]) -> list[float]:
        path = self._path(candidate, at)
        if (candidate, at) not in self._known:
            self._known[candidate, at] = _read(path)
        known = self._known[candidate, at]
        missing = [query for query in asked if query.query_id not in known]
        for begin in range(0, len(missing), AT_ONCE):
            part = missing[begin : begin + AT_ONCE]
            known |= self._scored(candidate, at, part)
            write_json(path, known)
            self.advance(len(part))
        return [known[query.query_id] for query in asked]

    def _scored(self, candidate: int, at: int, queries: Sequence[Query]) -> dict[str, float]:
        collection = self.collections[at]
        rows = tuple(self.answers.of(candidate, collection, queries))
        for row in rows:
            if row.status is not Status.ANSWERED:
                raise CandidateFailed(candidate, f"query {row.query_id}: {row.error}")
        run = Run.of(self.answers.arms[candidate].name, rows)
        asked = [row.query_id for row in rows]
        return dict(score(run, collection.qrels, [self.measure], asked)[self.measure].by_query)

    def _path(self, candidate: int, at: int) -> Path:
        """Name the file of a column by all that its values depend on."""
        answers = self.answers
        settings = settings_of(answers.arms[candidate].settings)
        rests = [answers.code, settings, answers.k, answers.time_limit_s, self.measure]
        return self.folder / f"{of_json([rests, self.collections[at].sha256])[:32]}.json"


def _read(path: Path) -> dict[str, float]:
    """Read what is known of a column; what is no column is as good as nothing."""
    try:
        return {str(query_id): float(value) for query_id, value in json_file(path).items()}
    except (OSError, ValueError, AttributeError, TypeError):
        return {}


@dataclass(frozen=True, slots=True)
class TuneRequest:
    """What to tune, and on what."""

    arm: str
    space: Space
    space_file: Path
    data: Sequence[Prepared]
    replay: ReplayParams
    to: Path
    folder: Path
    """Where indexes and values are kept; a killed search goes on from there."""
    cache: Path


def tune(wanted: TuneRequest) -> tuning.TuningRecord:
    """Choose among all combinations of the space, and write the arm and its record."""
    search = wanted.space.search
    given = registry.load(wanted.arm, wanted.cache)
    candidates = wanted.space.candidates
    arms = [_candidate(wanted, one) for one in candidates]
    collections = tuple(_collection(data, search.measure) for data in wanted.data)
    names = [one.data.manifest.name for one in collections]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise errors.EvidenceError(f"two data sets are called {twice[0]}; name each once")
    rows = _rows(collections, search.seed)
    code = of_json([code_sha256(), of_files(sources(given))])
    queries = sum(len(one.queries) for one in collections)
    with progress(f"tuning {given.name}", queries * (len(arms) + 1)) as advance:
        k, limit, indexes = wanted.replay.k, wanted.replay.time_limit_s, wanted.folder / "index"
        answers = CandidateAnswers((*arms, given), k, limit, indexes, code)
        cells = Cells(answers, collections, search.measure, wanted.folder / "values", advance)
        try:
            before = cells(len(arms), rows.everything)
        except CandidateFailed as exc:
            raise errors.InvalidArm(f"{given.path}: fails as it is given, at {exc}") from exc
        left, found, failed = _selected(cells, rows, len(arms), search)
    chosen = [candidates[at] for at in left]
    text = arm_text(given.path, chosen[found.best], wanted.to.stem + tuning.SUFFIX)
    gain = _difference(rows.weights() * (found.held_out - before), rows.cluster, search)
    record = tuning.TuningRecord(
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
        space={key: tuple(values) for key, values in wanted.space.space.items()},
        settings=chosen[found.best],
        candidates=len(arms),
        failed={said(candidates[at]): told for at, told in failed.items()},
        given=rows.mean(rows.everything, before),
        apparent=found.apparent,
        expected=found.expected,
        gain=gain,
        collections=tuple(_seen(one) for one in collections),
    )
    record_file = wanted.to.with_name(wanted.to.stem + tuning.SUFFIX)
    write_text(record_file, record.model_dump_json(indent=2) + "\n")
    write_text(wanted.to, text)
    shutil.rmtree(indexes, ignore_errors=True)
    return record


def said(settings: Mapping[str, Scalar]) -> str:
    """Return a candidate's values in one line."""
    return ", ".join(f"{key} = {value}" for key, value in settings.items())


def _candidate(wanted: TuneRequest, one: Mapping[str, Scalar]) -> Arm:
    try:
        return registry.load(wanted.arm, wanted.cache, one)
    except errors.BadPolicy as exc:
        problem = f"{said(one)}: {exc.problem}"
        raise errors.BadFile(
            wanted.space_file, problem, "Give values that the arm may have"
        ) from exc
    except errors.UnknownName as exc:
        hint = "Search settings that the arm's file has"
        raise errors.BadFile(wanted.space_file, str(exc), hint) from exc


def _collection(data: Prepared, measure: str) -> TuningSplit:
    """Take the judged queries for which the measure is defined."""
    qrels, queries = data.qrels(), data.queries()
    judged = [query for query in queries if query.query_id in qrels.grades]
    if not judged:
        raise errors.EvidenceError(f"{data.manifest.name}: has no judged query to tune on")
    ids = [query.query_id for query in judged]
    nothing = Run.of("nothing", (Row(query_id, Status.ANSWERED) for query_id in ids))
    defined = score(nothing, qrels, [measure], ids)[measure].by_query
    kept = tuple(query for query in judged if query.query_id in defined)
    if not kept:
        raise errors.EvidenceError(
            f"{data.manifest.name}: has no judged query with a value of {measure}"
        )
    return TuningSplit(data, kept, qrels)


def _rows(collections: Sequence[TuningSplit], seed: int) -> Rows:
    """Return a row to each query; near duplicates and queries of one intent are one cluster."""
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
    raise errors.EvidenceError(f"each candidate failed; the last one at {[*failed.values()][-1]}")


def _difference(values: Floats, clusters: Ints, search: SearchTable) -> tuning.TuningDifference:
    estimate = bca(
        values,
        confidence=search.confidence,
        resamples=search.resamples,
        seed=search.seed,
        clusters=clusters,
    )
    return tuning.TuningDifference(value=estimate.value, low=estimate.low, high=estimate.high)


def _seen(collection: TuningSplit) -> tuning.SeenJudgements:
    of = collection.data.manifest
    judged = collection.qrels.grades.keys()
    return tuning.SeenJudgements(
        dataset=of.name,
        split=of.split,
        corpus=of.corpus_sha256,
        queries=of.queries_sha256,
        qrels=of.qrels_sha256,
        words=tuning.digests_of(
            query for query in collection.data.queries() if query.query_id in judged
        ),
    )
