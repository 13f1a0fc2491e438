"""Pools, labels and judged samples as files."""

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from harness.core import digest
from harness.core.errors import BadFile, EvidenceError, HarnessError
from harness.core.evidence import Sample
from harness.core.files import held, write_text
from harness.core.folders import FileChange, changing, check_new, completed
from harness.core.names import Name
from harness.core.printable import many
from harness.core.reading import numbered
from harness.core.records import Judgement
from harness.core.store import Artifact, Journal, Json, JsonLines, StrictModel
from harness.corpus import cells, trec

Kind = Literal["machine", "person"]
LABEL_REMEDY = "Restore the line, or write the file anew with the command that made it"
Probability = Annotated[float, Field(ge=0, le=1)]


def _whole(found: object) -> object:
    """Read a grade as every reader does; what is none is left to the model to refuse."""
    grade = cells.whole(found)
    return found if grade is None else grade


class Label(StrictModel):
    """One judgement, and where it comes from."""

    query_id: str
    doc_id: str
    grade: Annotated[int, BeforeValidator(_whole)]
    kind: Kind
    by: Name
    model: str = ""
    template: str = ""
    """SHA-256 of the instructions that the model had; empty where there are none."""
    probabilities: Annotated[tuple[Probability, ...], Field(strict=False)] = ()
    """Of each grade of the scale, from the lowest; empty where only a grade was given."""
    cost: Annotated[float, Field(ge=0)] = 0.0
    note: str = ""


LABELS: Journal[Label] = JsonLines(
    "a label", Label, partial(json.dumps, ensure_ascii=False), remedy=LABEL_REMEDY
)


def write_labels(path: Path, labels: Iterable[Label]) -> None:
    """Write labels, a line each."""
    write_text(path, LABELS.text(labels), durable=True)


def read_labels(path: Path) -> tuple[Label, ...]:
    """Read labels."""
    labels: list[Label] = []
    seen: dict[object, int] = {}
    for number, _, label in LABELS.lines(path):
        said = f"{label.by} judged {label.doc_id} for query {label.query_id}"
        trec.check_once(path, number, seen, (label.by, label.query_id, label.doc_id), said)
        labels.append(label)
    if not labels:
        raise BadFile(path, "it holds no label", "Write one label a line")
    return tuple(labels)


def only_of(path: Path, judges: Collection[str]) -> bool:
    """Return whether a file holds labels of these judges and nothing else."""
    try:
        return {label.by for label in read_labels(path)} <= set(judges)
    except HarnessError:
        return False


def is_labels(path: Path) -> bool:
    """Return whether a file holds labels, and no judgements as TREC writes them."""
    return next((line for _, line in numbered(path)), "").startswith("{")


HINT = "Make the pool again (harness pool)."
PUT_BACK = "Put the lines back, with ? where nothing is judged, or restore the file"
GUIDELINES = "guidelines.md"
"""File beside a pool with what a grade means; it is shown to those who judge."""


TITLE, SNIPPET = 200, 600


class JudgingPair(StrictModel):
    """One pair, with what a person must see; a line of the file beside the pool."""

    query_id: str
    doc_id: str
    query: str
    title: str
    snippet: str
    narrows: float
    """How much narrower the bounds of the mean difference get by judging it."""
    scale: Annotated[tuple[int, ...], Field(min_length=1, strict=False)]
    """Grades that the judgements of the set know."""


class Overtaken(EvidenceError):
    """Somebody else judged the pair since it was shown."""

    def __init__(self, grade: int | None) -> None:
        now = "took its grade away" if grade is None else f"judged it {grade}"
        super().__init__(f"somebody else {now} meanwhile; nothing was changed")
        self.grade = grade


@dataclass(frozen=True, slots=True)
class Pool:
    """Pairs, the most decisive first, and the grade of each; None where it is unjudged."""

    pairs: tuple[JudgingPair, ...]
    grades: tuple[int | None, ...]

    @property
    def open(self) -> tuple[int, ...]:
        """Places of the unjudged pairs."""
        return tuple(at for at, grade in enumerate(self.grades) if grade is None)

    @property
    def judgements(self) -> tuple[Judgement, ...]:
        """What was judged."""
        return tuple(
            Judgement(pair.query_id, pair.doc_id, grade)
            for pair, grade in zip(self.pairs, self.grades, strict=True)
            if grade is not None
        )

    def at(self, query_id: str, doc_id: str) -> int | None:
        """Place of a pair; None where it is not in the pool."""
        of = ((pair.query_id, pair.doc_id) for pair in self.pairs)
        return next((at for at, ids in enumerate(of) if ids == (query_id, doc_id)), None)

    def graded(self, at: int, grade: int | None) -> "Pool":
        """Return the pair at a place a grade, or take it away."""
        return replace(self, grades=(*self.grades[:at], grade, *self.grades[at + 1 :]))


PAIRS: Journal[JudgingPair] = JsonLines(
    "a pair of a pool",
    JudgingPair,
    partial(json.dumps, ensure_ascii=False, sort_keys=True),
    remedy=HINT,
)


def texts_path(path: Path) -> Path:
    """Where the queries and documents of a pool lie."""
    if not path.name:
        raise BadFile(path, "is a folder", "Name the pool: the file that harness pool wrote")
    return path.with_name(f"{path.name}.jsonl")


def begin(path: Path, pool: Pool, more: Mapping[Path, str] = MappingProxyType({})) -> None:
    """Write a new pool with what lies beside it, and ``more``; all are there or none."""
    with changing(path, within=(path.parent,), what="pool") as change:
        for file in (path, texts_path(path), *more):
            check_new(file)
        for file, text in more.items():
            change.write(file, text)
        put(change, path, pool)


def put(change: FileChange, path: Path, pool: Pool) -> None:
    """Change a pool together with what lies beside it."""
    change.write(texts_path(path), PAIRS.text(pool.pairs))
    change.write(path, grades_of(pool))


def write_grades(path: Path, pool: Pool) -> None:
    """Write the pool itself."""
    write_text(path, grades_of(pool), durable=True)


def grades_of(pool: Pool) -> str:
    """Return the pool itself."""
    lines = (
        f"{pair.query_id} 0 {pair.doc_id} {trec.UNFILLED if grade is None else grade}\n"
        for pair, grade in zip(pool.pairs, pool.grades, strict=True)
    )
    return "".join(lines)


def regrade(path: Path, pair: JudgingPair, was: int | None, grade: int | None) -> Pool:
    """Write the grade of a pair that had the grade ``was`` when it was shown; give the pool now."""
    completed(path, within=(path.parent,))
    with held(path):
        pool = read_held(path)
        at = pool.at(pair.query_id, pair.doc_id)
        if at is None:
            raise BadFile(path, f"{pair.doc_id} for query {pair.query_id} is gone", HINT)
        if pool.grades[at] == grade:
            return pool
        if pool.grades[at] != was:
            raise Overtaken(pool.grades[at])
        changed = pool.graded(at, grade)
        write_grades(path, changed)
        return changed


def read_pool(path: Path, *, strict: bool = False) -> Pool:
    """Read a pool with what lies beside it; its lines may stand in another order by now."""
    completed(path, within=(path.parent,))
    return read_held(path, strict=strict)


def read_held(path: Path, *, strict: bool = False) -> Pool:
    """Read a pool that is held already, and so is whole: a lock is not given twice."""
    texts = {(pair.query_id, pair.doc_id): pair for pair in PAIRS.read(texts_path(path))}
    found: dict[tuple[str, str], int | None] = {}
    for number, text in numbered(path):
        query_id, doc_id, graded = trec.judged_line(path, number, text)
        grade = None if graded == trec.UNFILLED else trec.grade(path, number, graded)
        pair = query_id, doc_id
        if pair not in texts or pair in found:
            problem = f"{doc_id} for query {query_id} is not in the pool, or is twice"
            raise BadFile(path, problem, "Only fill in grades.", number)
        scale = texts[pair].scale
        if strict and grade is not None and grade not in scale:
            problem = f"the grade {grade} is not on the scale {', '.join(map(str, scale))}"
            raise BadFile(path, problem, "Correct it", number)
        found[pair] = grade
    if not found:
        raise BadFile(path, "it holds no pair", HINT)
    gone = [pair for pair in texts if pair not in found]
    if strict and gone:
        query_id, doc_id = gone[0]
        problem = f"{len(gone)} of {many(len(texts), 'pair')} are gone"
        raise BadFile(path, f"{problem}, the first {doc_id} for query {query_id}", PUT_BACK)
    return Pool(tuple(texts[pair] for pair in found), tuple(found.values()))


SAMPLE_REMEDY = "Take the sample in again: harness labels POOL --by NAME"


SAMPLES: Artifact[Sample] = Json("a sample", Sample, remedy=SAMPLE_REMEDY, strict=True)


def name_of(sample: Sample) -> str:
    """Name the file of a sample: one for control, candidate and measure."""
    return f"{digest.of_json(list(sample.key))[:16]}.sample.json"
