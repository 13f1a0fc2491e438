"""One query to one arm, and which stage of a candidate wins or loses what."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from harness.core.engine import IMPORTED, Explained, Explains, Hit, Searcher, Staged
from harness.core.errors import EvidenceError, InvalidArm, UnknownName
from harness.core.progress import progress
from harness.core.records import Document, Query
from harness.core.run import Row, Status
from harness.core.scores import Paired, codes
from harness.core.store import Artifact, Json
from harness.corpus.prepared import Prepared
from harness.corpus.runs import read_run
from harness.gates.base.rules import Rules
from harness.measures.decompose import DifferenceParts, decompose_way
from harness.measures.quality import score
from harness.pipeline.index import check_index, opened
from harness.pipeline.layout import Layout
from harness.pipeline.receipts import check_run, read_manifest
from harness.pipeline.score import slices
from harness.replay.drive import Noted, observe, told, trace, unstaged
from harness.report.explorer_stages import HINT, Decomposed, SliceChange, from_json, to_json
from harness.report.inputs import Apart
from harness.stats.significance import fdr_adjusted, sign_flip_each
from harness_engines import registry as arms

NO_LIMIT_NS = 1 << 62
STAGE_DEPTH = 100
"""Hits asked of each stage at least: a hit that one stage has far below is still told of."""


@dataclass(frozen=True, slots=True)
class ShownHit:
    """One hit."""

    hit: Hit
    document: Document | None
    grade: int | None
    ranks: Mapping[str, int | None]
    """By stage of the stack; None where it was not among the stage's first hundred."""
    why: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class ArmAnswer:
    """What one arm did with one query; it is not a measurement."""

    arm: str
    row: Row
    elapsed_ns: int
    note: str
    by_itself: bool | None
    """Whether the index that is open answered, and no fallback; None where no one answered."""
    ranks: Mapping[str, Mapping[str, int]]
    """By stage and document; empty where the stack tells of no stages."""
    explained: Explained | None
    hits: tuple[ShownHit, ...] = ()


def typed(layout: Layout, query_id: str) -> Query:
    """Find a query of the data set."""
    queries = {query.query_id: query for query in Prepared.open(layout.data).queries()}
    if query_id not in queries:
        raise UnknownName("query", query_id, queries)
    return queries[query_id]


def ask(
    layout: Layout, names: tuple[str, ...], query: Query, k: int, cache: Path
) -> list[ArmAnswer]:
    """Open each arm over the data set's index, and ask it."""
    data = Prepared.open(layout.data)
    answers = [_asked(layout, name, query, k, cache) for name in names]
    wanted = {hit.doc_id for one in answers for hit in one.row.hits}
    documents = {one.doc_id: one for one in data.documents() if one.doc_id in wanted}
    grades = data.qrels().grades.get(query.query_id, {})

    def shown(one: ArmAnswer, hit: Hit) -> ShownHit:
        doc_id = hit.doc_id
        ranks = {stage: of.get(doc_id) for stage, of in one.ranks.items()}
        why = one.explained.hits.get(doc_id) if one.explained else None
        return ShownHit(hit, documents.get(doc_id), grades.get(doc_id), ranks, why)

    return [replace(one, hits=tuple(shown(one, hit) for hit in one.row.hits)) for one in answers]


def _asked(layout: Layout, name: str, query: Query, k: int, cache: Path) -> ArmAnswer:
    arm = arms.load(name, cache)
    if not layout.manifest(arm.name).is_file():
        check_index(layout, arm)  # its remedy names the file of an arm that has one
    if read_manifest(layout, arm.name).engine == IMPORTED:
        raise EvidenceError(f"{arm.name}: was imported as a run, so its engine cannot be queried")
    with opened(layout, arm) as searcher:
        noted = Noted(searcher)
        seen = observe(noted, query, k, NO_LIMIT_NS)
        own = seen.row.served_by == searcher.manifest.fingerprint
        by_itself = own if seen.row.status is Status.ANSWERED else None
        why = ({}, None) if seen.row.error else _reasons(name, searcher, query, k)
        return ArmAnswer(name, seen.row, seen.elapsed_ns, noted.note, by_itself, *why)


def _reasons(
    name: str, searcher: Searcher, query: Query, k: int
) -> tuple[dict[str, dict[str, int]], Explained | None]:
    """Return what a stack says of its own answer: ranks by stage, and an explanation."""
    text, params = query.text, query.params
    try:
        depth = max(k, STAGE_DEPTH)
        stages = told(searcher, query, depth) if isinstance(searcher, Staged) else ()
        why = searcher.explain(text, k, params) if isinstance(searcher, Explains) else None
    except (KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException as exc:  # a panic of a Rust engine is no Exception
        raise InvalidArm(f"{name}: answers, and cannot say why ({exc})") from exc
    ranks = {
        stage.name: {hit.doc_id: at for at, hit in enumerate(stage.hits, start=1)}
        for stage in stages
    }
    return ranks, why


FOLDER = "apart"


PARTS: Artifact[Mapping[str, Any]] = Json("a difference by stage", dict[str, Any], remedy=HINT)


def keep(layout: Layout, decomposed: Decomposed) -> None:
    """Write it where the next report finds it; an earlier one of the same arms goes."""
    path = layout.today / FOLDER / f"{'~'.join(decomposed.names)}.json"
    PARTS.write(path, to_json(decomposed))


def kept(layout: Layout) -> tuple[Apart, ...]:
    """Read all that is kept, by name."""
    files = sorted((layout.today / FOLDER).glob("*.json"))
    return tuple(from_json(PARTS.read(path), path) for path in files)


ALL = "all"


@dataclass(frozen=True, slots=True)
class DecomposeRequest:
    """Which difference is taken apart."""

    control: str
    candidate: str
    measure: str
    k: int

    @property
    def names(self) -> tuple[str, str]:
        """Names of control and candidate."""
        return arms.name_of(self.control), arms.name_of(self.candidate)


def decompose(layout: Layout, wanted: DecomposeRequest, rules: Rules, cache: Path) -> Decomposed:
    """Ask the candidate for its stages, and attribute its difference from the control to them."""
    for arm in wanted.names:
        check_run(layout, arm)
    data = Prepared.open(layout.data)
    queries, qrels = data.queries(), data.qrels()
    control, shown = (read_run(layout.run(arm)) for arm in wanted.names)
    asked = [query.query_id for query in queries]
    paired = Paired.of(
        *(score(run, qrels, [wanted.measure], asked)[wanted.measure] for run in (control, shown))
    )
    known = frozenset(paired.query_ids)
    traced = unstaged(shown)
    if read_manifest(layout, wanted.names[1]).engine != IMPORTED:
        staged = [query for query in queries if query.query_id in known]
        loaded = arms.load(wanted.candidate, cache)
        doing = progress(f"asking {loaded.name} for its stages", len(staged))
        with opened(layout, loaded) as searcher, doing as advance:
            traced = trace(searcher, staged, shown, k=wanted.k, advance=advance)
    kept = [at for at, query_id in enumerate(paired.query_ids) if query_id not in traced.lost]
    ids = tuple(paired.query_ids[at] for at in kept)
    parts = decompose_way(control, traced.way, qrels, wanted.measure, ids)
    steps = {run.arm: part for run, part in zip(traced.way, parts, strict=True)}
    by_id = {query.query_id: query for query in queries}
    return Decomposed(
        dataset=data.manifest.name,
        names=wanted.names,
        measure=wanted.measure,
        queries=tuple(by_id[query_id] for query_id in ids),
        control=paired.control[kept],
        candidate=paired.candidate[kept],
        steps=steps,
        beside={
            run.arm: score(run, qrels, [wanted.measure], ids)[wanted.measure].values
            for run in traced.beside
        },
        level=1 - rules.confidence,
        moved=_moved(steps, ids, slices(queries), data.clusters(), rules),
        lost={query_id: why for query_id, why in traced.lost.items() if query_id in known},
    )


def _moved(
    steps: Mapping[str, DifferenceParts],
    ids: Sequence[str],
    of_slices: Mapping[str, frozenset[str]],
    clusters: Mapping[str, str],
    rules: Rules,
) -> tuple[SliceChange, ...]:
    """Try each step on each slice; the slices are one family for each step."""
    members = {
        name: np.array([q in wanted for q in ids], dtype=bool)
        for name, wanted in {ALL: frozenset(ids), **of_slices}.items()
    }
    totals = np.column_stack([part.total for part in steps.values()])
    found: dict[str, tuple[float, ...]] = {}
    for name, inside in members.items():
        if inside.any():
            found[name] = sign_flip_each(
                totals[inside],
                resamples=rules.resamples,
                seed=rules.seed,
                clusters=codes([q for q, own in zip(ids, inside, strict=True) if own], clusters),
            )
    p_values = np.array(list(found.values()))
    adjusted = np.column_stack([fdr_adjusted(column) for column in p_values.T])
    every = [
        SliceChange(
            name,
            step,
            float(totals[members[name], at].mean()),
            int(members[name].sum()),
            float(adjusted[row, at]),
        )
        for row, name in enumerate(found)
        for at, step in enumerate(steps)
    ]
    return tuple(sorted(every, key=lambda one: (one.p_value, -abs(one.mean), one.slice, one.step)))
