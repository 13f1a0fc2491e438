"""The pool of a comparison, or a sample of unjudged hits: written, and taken in as evidence."""

import shlex
from collections.abc import Mapping, Sequence
from enum import StrEnum
from os.path import relpath
from pathlib import Path
from random import Random
from typing import NamedTuple

from pydantic import Field

from harness.core import digest
from harness.core.errors import EvidenceError, UnknownName
from harness.core.evidence import Sample
from harness.core.folders import changing, check_new, completed
from harness.core.printable import many, one_line
from harness.core.records import Qrels
from harness.core.run import Run, Status
from harness.core.store import Artifact, Json, StrictModel
from harness.corpus import judgements
from harness.corpus.judgements import SNIPPET, TITLE, JudgingPair, Pool
from harness.corpus.prepared import Prepared
from harness.corpus.runs import read_run
from harness.judge.evidence import folder_of
from harness.measures import missing_judgements as gaps
from harness.pipeline.layout import Layout
from harness.pipeline.receipts import check_run
from harness.report.rounding import snippet

Chosen = Mapping[tuple[str, str], float]


class Compared(NamedTuple):
    """What is compared."""

    control: str
    candidate: str
    measure: str


class Runs(NamedTuple):
    """Both runs, what is judged, and the queries that both answered."""

    control: Run
    candidate: Run
    data: Prepared
    qrels: Qrels
    ids: tuple[str, ...]


def read_runs(layout: Layout, *arms: str) -> Runs:
    """Read what two arms showed, and what is judged."""
    known = sorted(path.stem for path in layout.manifests.glob("*.json"))
    for arm in arms:
        if known and arm not in known:
            raise UnknownName(f"arm that {layout.root.name} was run with", arm, known)
        check_run(layout, arm)
    control, candidate = (read_run(layout.run(arm)) for arm in arms)
    answered = frozenset(
        query_id
        for query_id, status in zip(candidate.query_ids, candidate.status.tolist(), strict=True)
        if status == Status.ANSWERED
    )
    both = tuple(
        query_id
        for query_id, status in zip(control.query_ids, control.status.tolist(), strict=True)
        if status == Status.ANSWERED and query_id in answered
    )
    data = Prepared.open(layout.data)
    return Runs(control, candidate, data, data.qrels(), both)


def pairs_of(data: Prepared, chosen: Chosen, scale: Sequence[int]) -> tuple[JudgingPair, ...]:
    """Return pairs with what people must see to judge them."""
    asked = {query.query_id: query for query in data.queries()}
    shown = {doc_id for _, doc_id in chosen}
    documents = {d.doc_id: d for d in data.documents() if d.doc_id in shown}
    pairs = []
    for (query_id, doc_id), narrows in chosen.items():
        query, document = asked[query_id], documents.get(doc_id)
        pairs.append(
            JudgingPair(
                query_id=query_id,
                doc_id=doc_id,
                query=one_line(query.text),
                title=one_line(document.title, TITLE) if document else "",
                snippet=snippet(document.text, query.text, SNIPPET)
                if document
                else "not in the corpus",
                narrows=narrows,
                scale=tuple(scale),
            )
        )
    return tuple(pairs)


HINT = "Make a new pool with --order sample (harness pool)"


class PoolDrawing(StrictModel):
    """How hits were drawn, and of which runs."""

    control: str
    candidate: str
    measure: str
    seed: int
    rate: float = Field(gt=0)
    root: str
    today: str
    cache: str
    """Where the evidence lies (``Layout``)."""
    runs: tuple[str, str] = Field(strict=False)
    """Digests of both runs: of others, other hits would be drawn."""

    @property
    def layout(self) -> Layout:
        return Layout(Path(self.root), Path(self.today), Path(self.cache))

    @property
    def place(self) -> str:
        """Return the options that name the evidence: of a data set, or of what a run left."""
        root, perf = Path(self.root), Path(self.today)
        if root.parent != perf.with_name("build"):
            return f"--dataset {root.name}"
        return shlex.join(["--from", relpath(perf.parent.parent)])

    @property
    def compared(self) -> Compared:
        return Compared(self.control, self.candidate, self.measure)

    def sample(self, pool: Pool | None, by: str = "") -> Sample:
        """Return the sample with what a pool says of it."""
        grades: dict[str, dict[str, int]] = {}
        for query_id, doc_id, grade in pool.judgements if pool else ():
            grades.setdefault(query_id, {})[doc_id] = grade
        return Sample(*self.compared, self.seed, self.rate, grades, by)

    def judged(self, runs: Runs, pool: Pool | None) -> gaps.SampledQueries:
        """Return what is judged of it, and what comes next."""
        return gaps.judge(
            unjudged(runs, self.measure), (runs.control, runs.candidate), runs.qrels,
            self.sample(pool),
        )  # fmt: skip


class SampleProgress(NamedTuple):
    """How far a sample is judged."""

    drawing: PoolDrawing
    judged: gaps.SampledQueries
    pool: Pool

    @property
    def words(self) -> str:
        """Return it in a sentence or two."""
        if left := len(self.judged.left):
            return f"{many(left, 'pair is')} left of the sample."
        relevant = self.judged.relevant
        found = "none is" if not relevant else f"{relevant} are"
        return (
            f"The sample is judged: of {many(self.judged.drawn, 'drawn hit')} {found} relevant."
            f" Take it in: harness labels POOL {self.drawing.place} --by NAME"
        )


def unjudged(runs: Runs, measure: str) -> gaps.MissingJudgements:
    """Find the unjudged hits of the queries that both arms answered."""
    every = gaps.missing(runs.control, runs.candidate, runs.qrels, measure)
    answered = set(runs.ids)
    found = every.of([query_id for query_id in every.query_ids if query_id in answered])
    if not found.can_be_drawn:
        raise EvidenceError(
            f"what one hit adds to {measure} is not known, so none can be drawn for it; take"
            " nDCG@k, RR@k, P@k or R@k"
        )
    if not found.weight.any():
        raise EvidenceError(
            f"no judgement is missing that would move {measure} of {runs.candidate.arm} against"
            f" {runs.control.arm}; judge more queries instead"
        )
    return found


DRAWINGS: Artifact[PoolDrawing] = Json("a note of how a sample was drawn", PoolDrawing, remedy=HINT)


def beside(path: Path) -> Path:
    """Return where it stands how a pool was drawn."""
    return path.with_name(f"{path.name}.sample.json")


def runs_of(layout: Layout, compared: Compared) -> tuple[str, str]:
    """Return the digests of both runs."""
    control, candidate = (digest.of_file(layout.run(arm)) for arm in compared[:2])
    return control, candidate


def standing(path: Path) -> SampleProgress | None:
    """Count how far the sample in a pool is judged; None where the pool is not a sample."""
    found = drawing(path)
    return None if found is None else _seen(path, found, judgements.read_pool(path))


def following(path: Path) -> SampleProgress | None:
    """Append the next pairs to a pool whose pairs are all judged, unless it is whole."""
    found = drawing(path)
    if found is None:
        return None
    with changing(path, within=(path.parent,), what="pool") as change:
        now = judgements.read_held(path)
        seen = _seen(path, found, now)
        known = {(pair.query_id, pair.doc_id) for pair in now.pairs}
        chosen = dict.fromkeys((pair for pair in seen.judged.left if pair not in known), 0.0)
        if now.open or not chosen:
            return seen
        added = pairs_of(Prepared.open(found.layout.data), chosen, now.pairs[0].scale)
        more = Pool((*now.pairs, *added), (*now.grades, *(None for _ in added)))
        judgements.put(change, path, more)
    return seen._replace(pool=more)


def drawing(path: Path) -> PoolDrawing | None:
    """Read how a pool was drawn; None where it is not a sample."""
    return DRAWINGS.read(beside(path)) if beside(path).exists() else None


def _seen(path: Path, found: PoolDrawing, pool: Pool) -> SampleProgress:
    if runs_of(found.layout, found.compared) != found.runs:
        raise EvidenceError(
            f"{path}: {found.control} or {found.candidate} was run anew, and other hits would be"
            f" drawn. {HINT}"
        )
    runs = read_runs(found.layout, found.control, found.candidate)
    return SampleProgress(found, found.judged(runs, pool), pool)


class Order(StrEnum):
    """Which pairs come first."""

    BOUNDS = "bounds"
    """Those that narrow the bounds of the mean difference."""
    SAMPLE = "sample"
    """A sample of the unjudged hits of both arms, drawn by what each can move."""


class Pooled(NamedTuple):
    """What was written, and what the missing judgements leave open as it is."""

    pairs: int
    of: int
    queries: int
    worst: float
    best: float


def pool(  # noqa: PLR0917  all of it is needed
    layout: Layout, compared: Compared, order: Order, size: int, path: Path, seed: int
) -> Pooled:
    """Write ``size`` pairs into ``path``, and beside it their texts and how they were drawn.

    By bounds (method, section 2), pairs are ordered by how much each alone narrows the bounds of
    the mean difference. A sample has ``size`` pairs on average, in a drawn order.
    """
    completed(path, within=(path.parent,))
    for file in (path, judgements.texts_path(path), beside(path)):
        check_new(file, reads=(layout.root,))
    runs, more = read_runs(layout, *compared[:2]), dict[Path, str]()
    if order is Order.BOUNDS:
        chosen, found = _by_bounds(runs, compared, size)
    else:
        open_ = unjudged(runs, compared.measure)
        how = PoolDrawing(
            **compared._asdict(),
            seed=seed,
            rate=gaps.rate_of(open_, size),
            root=str(layout.root.resolve()),
            today=str(layout.today.resolve()),
            cache=str(layout.cache.resolve()),
            runs=runs_of(layout, compared),
        )
        chosen, found = _sampled(how, runs, open_)
        more[beside(path)] = how.model_dump_json(indent=1) + "\n"
    scale = gaps.bounding(compared.measure, runs.qrels).scale
    pairs = pairs_of(runs.data, chosen, scale)
    judgements.begin(path, Pool(pairs, (None,) * len(pairs)), more)
    return found


def _sampled(how: PoolDrawing, runs: Runs, open_: gaps.MissingJudgements) -> tuple[Chosen, Pooled]:
    left = list(how.judged(runs, None).left)
    if not left:
        raise EvidenceError("no hit was drawn; ask for a larger --size")
    Random(how.seed).shuffle(left)
    bounds = float(open_.worst.mean()), float(open_.best.mean())
    return dict.fromkeys(left, 0.0), Pooled(
        len(left), len(open_.query), len(open_.query_ids), *bounds
    )


def _by_bounds(runs: Runs, compared: Compared, size: int) -> tuple[Chosen, Pooled]:
    control, candidate, _, qrels, answered = runs
    measure, judged = compared.measure, set(qrels.query_ids)
    wanted = gaps.bounding(measure, qrels)
    both = tuple(query_id for query_id in answered if query_id in judged)
    each = gaps.cases(control, candidate, qrels, both, 0)
    ids = tuple(q for q, case in each if wanted.defined(case))
    found = gaps.narrowing(control, candidate, qrels, measure, ids)
    if not found:
        raise EvidenceError(
            f"no judgement is missing that would move {measure} of {compared.candidate} against"
            f" {compared.control}; judge more queries instead"
        )
    chosen = sorted(found, key=lambda pair: (-found[pair], pair))[:size]
    every = gaps.missing(control, candidate, qrels, measure).of(ids)
    ends = float(every.worst.mean()), float(every.best.mean())
    narrows = {pair: found[pair] for pair in chosen}
    return narrows, Pooled(len(chosen), len(found), len(ids), *ends)


def take_sample(layout: Layout, path: Path, by: str) -> Sample:
    """Copy a judged sample to the evidence, in the place of one of the same arms and measure."""
    seen = standing(path)
    if seen is None:
        raise EvidenceError(f"{path}: is not a sample. {HINT}")
    if left := len(seen.judged.left):
        raise EvidenceError(
            f"{path}: {many(left, 'pair')} of the sample are not judged; judge them: harness judge"
            f" {path}"
        )
    found = seen.drawing.sample(seen.pool, by)
    folder_of(layout).mkdir(parents=True, exist_ok=True)
    judgements.SAMPLES.write(folder_of(layout) / judgements.name_of(found), found)
    return found
