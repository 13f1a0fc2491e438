"""A pool that is a sample of unjudged hits: where a drawn hit is relevant, its query's others come.

How it was drawn is a file beside the pool. Whoever judges the last pair, in a browser or in a
terminal, gets the next ones at the end of the same pool, until the sample is whole.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from harness.core import digest
from harness.core.durable.journal import changing
from harness.core.errors import BadFile, EvidenceError
from harness.core.evidence import Sample
from harness.core.formats import json_file
from harness.core.printable import many
from harness.corpus import pool as pools
from harness.corpus.pool import Pool
from harness.corpus.prepared import Prepared
from harness.measures.unjudged import drawn
from harness.measures.unjudged.drawn import Judged
from harness.measures.unjudged.missing import Missing, missing
from harness.stages.judging.compared import Compared, Runs, pairs_of, read_runs
from harness.stages.layout import Layout

HINT = "Make a new pool: harness pool --order sample"


class Drawing(BaseModel):
    """How hits were drawn, and of which runs."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)
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
    def compared(self) -> Compared:
        return Compared(self.control, self.candidate, self.measure)

    def sample(self, pool: Pool | None, by: str = "") -> Sample:
        """Give the sample with what a pool says of it."""
        grades: dict[str, dict[str, int]] = {}
        for query_id, doc_id, grade in pool.judgements if pool else ():
            grades.setdefault(query_id, {})[doc_id] = grade
        names = self.control, self.candidate, self.measure
        return Sample(*names, self.seed, self.rate, grades, by)

    def judged(self, runs: Runs, pool: Pool | None) -> Judged:
        """Say what is judged of it, and what comes next."""
        return drawn.judge(
            unjudged(runs, self.measure), (runs.control, runs.candidate), runs.qrels,
            self.sample(pool),
        )  # fmt: skip


class Standing(NamedTuple):
    """How far a sample is judged."""

    drawing: Drawing
    judged: Judged
    pool: Pool

    @property
    def words(self) -> str:
        """Say it in a sentence or two."""
        if left := len(self.judged.left):
            return f"{many(left, 'pair is')} left of the sample."
        relevant = self.judged.relevant
        found = "none is" if not relevant else f"{relevant} are"
        return (
            f"The sample is judged: of {many(self.judged.drawn, 'drawn hit')} {found} relevant."
            f" Take it in: harness labels POOL --dataset {self.drawing.layout.root.name} --by NAME"
        )


def unjudged(runs: Runs, measure: str) -> Missing:
    """Find the unjudged hits of the queries that both arms answered.

    Raises:
        EvidenceError: none is unjudged, or single hits have no known effect on the measure.
    """
    every = missing(runs.control, runs.candidate, runs.qrels, measure)
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


def drawing_of(layout: Layout, compared: Compared, found: Missing, size: int, seed: int) -> Drawing:
    """Set the rate at which ``size`` hits are drawn on average."""
    root, today, cache = (str(one.resolve()) for one in (layout.root, layout.today, layout.cache))
    return Drawing(
        control=compared.control,
        candidate=compared.candidate,
        measure=compared.measure,
        seed=seed,
        rate=drawn.rate_of(found, size),
        root=root,
        today=today,
        cache=cache,
        runs=runs_of(layout, compared),
    )


def beside(path: Path) -> Path:
    """Say where it stands how a pool was drawn."""
    return path.with_name(f"{path.name}.sample.json")


def runs_of(layout: Layout, compared: Compared) -> tuple[str, str]:
    """Give the digests of both runs."""
    return (
        digest.of_file(layout.run(compared.control)),
        digest.of_file(layout.run(compared.candidate)),
    )


def text_of(drawing: Drawing) -> str:
    """Give the file beside the pool."""
    return drawing.model_dump_json(indent=1) + "\n"


def standing(path: Path) -> Standing | None:
    """Count how far the sample in a pool is judged; None where the pool is not a sample.

    Raises:
        BadFile: the pool or the file beside it cannot be read.
        EvidenceError: a run is another one than the hits were drawn from.
    """
    found = drawing(path)
    return None if found is None else _seen(path, found, pools.read(path))


def following(path: Path) -> Standing | None:
    """Put the next pairs at the end of a pool whose pairs are all judged, unless it is whole.

    Raises:
        BadFile, EvidenceError: as ``standing``.
    """
    found = drawing(path)
    if found is None:
        return None
    with changing(path, within=(path.parent,), what="pool") as change:
        now = pools.read_held(path)
        seen = _seen(path, found, now)
        known = {(pair.query_id, pair.doc_id) for pair in now.pairs}
        chosen = dict.fromkeys((pair for pair in seen.judged.left if pair not in known), 0.0)
        if now.open or not chosen:
            return seen
        added = pairs_of(Prepared.open(found.layout.data), chosen, now.pairs[0].scale)
        more = Pool((*now.pairs, *added), (*now.grades, *(None for _ in added)))
        change.write(pools.beside(path), pools.texts_of(more))
        change.write(path, pools.grades_of(more))
    return seen._replace(pool=more)


def drawing(path: Path) -> Drawing | None:
    """Read how a pool was drawn; None where it is not a sample.

    Raises:
        BadFile: the file beside the pool cannot be read.
    """
    file = beside(path)
    if not file.exists():
        return None
    try:
        return Drawing.model_validate(json_file(file))
    except (OSError, ValueError) as exc:
        raise BadFile(file, f"does not say how a sample was drawn ({exc})", HINT) from exc


def _seen(path: Path, found: Drawing, pool: Pool) -> Standing:
    if runs_of(found.layout, found.compared) != found.runs:
        raise EvidenceError(
            f"{path}: {found.control} or {found.candidate} was run anew, and other hits would be"
            f" drawn. {HINT}"
        )
    runs = read_runs(found.layout, found.compared, Prepared.open(found.layout.data))
    return Standing(found, found.judged(runs, pool), pool)
