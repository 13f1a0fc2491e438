"""A pool that settles a gate: its next pairs come when those before them are judged.

What the gate asks is a file beside the pool. Whoever judges the last pair, in a browser or in a
terminal, gets the next ones at the end of the same pool, until the gate is settled.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from harness.core import digest
from harness.core.durable.journal import changing
from harness.core.errors import BadFile, EvidenceError
from harness.core.formats import json_file
from harness.core.gate import Verdict
from harness.core.printable import many
from harness.core.qrels import Qrels
from harness.corpus import pool as pools
from harness.corpus.pool import Pool
from harness.corpus.prepared import Prepared
from harness.measures.unjudged.bounds import Bounding
from harness.measures.unjudged.runs import bounding, cases
from harness.measures.unjudged.settling import Look, Settling, scale_of
from harness.stages.judging.compared import Compared, Runs, pairs_of, read_runs
from harness.stages.layout import Layout

SIGNS = {"non_inferior": -1.0, "superior": 1.0}
"""Of the bound of each gate that can be settled."""
HINT = "Make a new pool: harness pool --order settle"


class Gate(BaseModel):
    """What is to be settled, and of which runs."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)
    asks: Literal["non_inferior", "superior"]
    margin: float = Field(ge=0, le=1)
    control: str
    candidate: str
    measure: str
    seed: int
    confidence: float = Field(gt=0, lt=1)
    size: int = Field(ge=1)
    """Pairs that come at a time."""
    root: str
    today: str
    cache: str
    """Where the evidence lies (``Layout``)."""
    runs: tuple[str, str] = Field(strict=False)
    """Digests of both runs: of others, other queries would be drawn."""

    @property
    def words(self) -> str:
        """Name the gate."""
        return f"{self.asks} by {self.margin:g}"

    @property
    def layout(self) -> Layout:
        return Layout(Path(self.root), Path(self.today), Path(self.cache))

    @property
    def compared(self) -> Compared:
        return Compared(self.control, self.candidate, self.measure)

    def look(self, runs: Runs, data: Prepared) -> Look:
        """Draw the queries, and see what their judgements say.

        Raises:
            UnknownName: the measure has no exact bounds while nothing is judged.
        """
        wanted = bounding(self.measure, runs.qrels)
        wanted = Bounding.of(self.measure, {*wanted.scale, *scale_of(wanted)})
        begun = Qrels({query_id: runs.qrels.grades.get(query_id, {}) for query_id in runs.ids})
        each = dict(cases(runs.control, runs.candidate, begun, runs.ids, wanted.asked.cutoff))
        bound = SIGNS[self.asks] * self.margin
        settling = Settling.of(wanted, bound, each, data.clusters(), self.seed)
        return settling.look(each, confidence=self.confidence)


class Standing(NamedTuple):
    """How far a pool has settled its gate."""

    gate: Gate
    look: Look
    pool: Pool

    @property
    def words(self) -> str:
        """Say it in a sentence or two."""
        look = self.look
        mean = "" if look.mean is None else f", with a difference of about {look.mean:+.3f}"
        done = f"after {look.judged} of {look.drawn} drawn queries{mean}"
        if look.verdict is not Verdict.INCONCLUSIVE:
            return f"{look.verdict.name}: {self.gate.words} is settled {done}."
        if look.missing:
            left = len(look.missing)
            return f"{self.gate.words} is open {done}. {many(left, 'pair is')} left."
        return f"{self.gate.words} is open {done}. Add queries: no pair is left."


def beside(path: Path) -> Path:
    """Say where the gate of a pool is."""
    return path.with_name(f"{path.name}.gate.json")


def runs_of(layout: Layout, compared: Compared) -> tuple[str, str]:
    """Give the digests of both runs."""
    return (
        digest.of_file(layout.run(compared.control)),
        digest.of_file(layout.run(compared.candidate)),
    )


def text_of(gate: Gate) -> str:
    """Give the file beside the pool."""
    return gate.model_dump_json(indent=1) + "\n"


def standing(path: Path) -> Standing | None:
    """Say how far a pool has settled its gate, by all that is judged; None where it has none.

    Raises:
        BadFile: the pool or its gate cannot be read.
        EvidenceError: a run is another one than the queries were drawn from.
    """
    gate = _gate(path)
    return None if gate is None else _seen(path, gate, pools.read(path))


def following(path: Path) -> Standing | None:
    """Put the next pairs at the end of a pool whose pairs are all judged, unless it is settled.

    Raises:
        BadFile, EvidenceError: as ``standing``.
    """
    gate = _gate(path)
    if gate is None:
        return None
    with changing(path, within=(path.parent,), what="pool") as change:
        now = pools.read_held(path)
        seen = _seen(path, gate, now)
        if now.open or not seen.look.missing:
            return seen
        chosen = dict.fromkeys(seen.look.missing[: gate.size], 0.0)
        added = pairs_of(Prepared.open(gate.layout.data), chosen, now.pairs[0].scale)
        more = Pool((*now.pairs, *added), (*now.grades, *(None for _ in added)))
        change.write(pools.beside(path), pools.texts_of(more))
        change.write(path, pools.grades_of(more))
    return seen._replace(pool=more)


def _gate(path: Path) -> Gate | None:
    file = beside(path)
    if not file.exists():
        return None
    try:
        return Gate.model_validate(json_file(file))
    except (OSError, ValueError) as exc:
        raise BadFile(file, f"is not what a pool settles ({exc})", HINT) from exc


def _seen(path: Path, gate: Gate, pool: Pool) -> Standing:
    data = Prepared.open(gate.layout.data)
    if runs_of(gate.layout, gate.compared) != gate.runs:
        raise EvidenceError(
            f"{path}: {gate.control} or {gate.candidate} was run anew, and other queries would be"
            f" drawn. {HINT}"
        )
    runs = read_runs(gate.layout, gate.compared, data)
    grades = {query_id: dict(docs) for query_id, docs in runs.qrels.grades.items()}
    for query_id, doc_id, grade in pool.judgements:
        grades.setdefault(query_id, {})[doc_id] = grade
    return Standing(gate, gate.look(runs._replace(qrels=Qrels(grades)), data), pool)
