"""Labels: judgements of which each row says who gave it, and how.

A file of labels is JSON lines, so no reader of TREC judgements takes it for judgements of people.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from harness.core import json_models
from harness.core.errors import BadFile, HarnessError
from harness.core.files import write_text
from harness.core.names import Name
from harness.core.qrels import Qrels
from harness.core.reading import numbered
from harness.core.records import Judgement
from harness.corpus import trec
from harness.corpus.cells import grades

Kind = Literal["machine", "person"]
REMEDY = "Restore the line, or write the file anew with the command that made it"
Probability = Annotated[float, Field(ge=0, le=1)]


def _whole(found: object) -> object:
    """Read a grade as every reader does; what is none is left to the model to refuse."""
    grade = grades.whole(found)
    return found if grade is None else grade


class Label(BaseModel):
    """One judgement, and where it comes from."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)
    query_id: str
    doc_id: str
    grade: Annotated[int, BeforeValidator(_whole)]
    kind: Kind
    by: Name
    """Name of the judge or of the person."""
    model: str = ""
    """Model that answered; empty for a person."""
    template: str = ""
    """SHA-256 of the instructions that the model had; empty where there are none."""
    probabilities: Annotated[tuple[Probability, ...], Field(strict=False)] = ()
    """Of each grade of the scale, from the lowest; empty where only a grade was given."""
    cost: Annotated[float, Field(ge=0)] = 0.0
    """What it cost, in the currency of the prices."""
    note: str = ""
    """What the judge said of its grade."""


def write(path: Path, labels: Iterable[Label]) -> None:
    """Write labels, a line each."""
    write_text(path, text_of(labels), durable=True)


def text_of(labels: Iterable[Label]) -> str:
    """Give the file that ``write`` writes."""
    rows = (json.dumps(one.model_dump(mode="json"), ensure_ascii=False) for one in labels)
    return "".join(f"{row}\n" for row in rows)


def read(path: Path) -> tuple[Label, ...]:
    """Read labels.

    Raises:
        BadFile: a line is malformed, a judge gave one pair two labels, or no label is there.
    """
    labels: list[Label] = []
    seen: dict[tuple[str, str, str], int] = {}
    for number, line in numbered(path):
        label = _label(path, number, line)
        key = (label.by, label.query_id, label.doc_id)
        if key in seen:
            problem = (
                f"{label.by} judged {label.doc_id} for query {label.query_id}"
                f" on line {seen[key]} already"
            )
            raise BadFile(path, problem, "Keep one of the two lines", number)
        seen[key] = number
        labels.append(label)
    if not labels:
        raise BadFile(path, "it holds no label", "Write one label a line")
    return tuple(labels)


def only_of(path: Path, judges: Collection[str]) -> bool:
    """Tell whether a file holds labels of these judges and nothing else."""
    try:
        return {label.by for label in read(path)} <= set(judges)
    except HarnessError:
        return False


def judgements(path: Path, kind: Kind) -> Qrels:
    """Read one grade a pair: TREC judgements, or labels of one judge of this kind.

    Raises:
        BadFile: it cannot be read, or labels are of another kind or of several judges.
    """
    first = next((line for _, line in numbered(path)), "")
    if not first.startswith("{"):
        return trec.qrels(path)
    labels = read(path)
    for label in labels:
        if label.kind != kind:
            problem = f"{label.by} is a {label.kind}, and labels of a {kind} are read here"
            raise BadFile(path, problem, "Name another file, or the other option")
    judges = sorted({(label.by, label.model, label.template) for label in labels})
    if len(judges) > 1:
        problem = f"it holds labels of {len(judges)} judges: {_named(judges)}"
        raise BadFile(path, problem, "Give each judge a file of its own")
    return Qrels.of(Judgement(one.query_id, one.doc_id, one.grade) for one in labels)


def _named(judges: Sequence[tuple[str, str, str]]) -> str:
    return ", ".join(f"{by} ({model}, template {template[:8]})" for by, model, template in judges)


def _label(path: Path, number: int, line: str) -> Label:
    return json_models.from_text(Label, line, path, REMEDY, number)
