"""A machine that judges a pool: its file, answers and cost, and labels that say who judged."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple

import numpy as np
from pydantic import Field

from harness.core import digest
from harness.core.errors import HarnessError, InvalidArm
from harness.core.files import held
from harness.core.folders import check_new
from harness.core.formats import toml_file
from harness.core.names import Name
from harness.core.progress import progress
from harness.core.store import Artifact, Json, StrictModel
from harness.corpus import judgements
from harness.corpus.judgements import JudgingPair, Label

if TYPE_CHECKING:
    from harness.judge.endpoint import Endpoint

MINUTES = 24 * 60
Text = Annotated[str, Field(min_length=1)]
Price = Annotated[float, Field(ge=0)]


class EndpointSettings(StrictModel):
    """A model behind an OpenAI-compatible endpoint. All keys must be given."""

    name: Name
    """The judge's name: its answers are kept under it."""
    kind: Literal["endpoint"]
    model: Text
    """As the endpoint calls it; a pinned version, since another one is another judge."""
    template: Text
    """File with the instructions, beside this one."""
    max_tokens: Annotated[int, Field(ge=16)]
    """Most tokens of an answer."""
    price_in: Price
    """Of a million tokens that are sent."""
    price_out: Price
    """Of a million tokens of answers."""
    budget: Annotated[float, Field(ge=0)]
    """Most that the judge may cost over all its commands."""
    per_minute: Annotated[float, Field(ge=1 / MINUTES)]
    """Most requests in a minute; one a day at least."""
    retries: Annotated[int, Field(ge=0, le=20)]
    """Attempts after the first one."""
    timeout_s: Annotated[float, Field(gt=0, le=60 * MINUTES)]
    """Seconds that a request may take; one day at most."""


JUDGES = Artifact(
    "the file of a judge",
    lambda path: EndpointSettings.model_validate(toml_file(path)),
    remedy="docs/judging.md lists the keys",
)


class PairToJudge(NamedTuple):
    """What is judged: the same that a person is shown."""

    query: str
    title: str
    text: str
    scale: tuple[int, ...]

    @classmethod
    def of(cls, pair: JudgingPair) -> PairToJudge:
        """Take what is shown of a pair; neither its ids nor what it is worth are."""
        return cls(pair.query, pair.title, pair.snippet, tuple(sorted(pair.scale)))


class CostBound(NamedTuple):
    """What one request may cost before it is sent."""

    tokens: float
    likely: float
    most: float


@dataclass(frozen=True, slots=True)
class JudgeAnswer:
    """What a judge says of one pair."""

    probabilities: tuple[float, ...]
    """Of each grade, the lowest first; they add up to 1."""
    model: str
    cost: float = 0.0
    note: str = ""
    retries: int = 0
    """Attempts before this one that gave no answer."""

    def grade(self, scale: Sequence[int]) -> int:
        """Return the most probable grade, of equals the lowest."""
        return scale[int(np.argmax(self.probabilities))]


class Unlabelled(HarnessError):
    """A judge gave a pair no valid answer."""


ANSWERS: Artifact[JudgeAnswer] = Json(
    "an answer of a judge", JudgeAnswer, remedy="Remove it; the pair is paid anew"
)


@dataclass(frozen=True, slots=True)
class AnswerFolder:
    """The folder of one judge; several commands may use it at once."""

    folder: Path
    judge: Endpoint

    def known(self, seen: PairToJudge) -> JudgeAnswer | None:
        """Return an answer that was paid; None where there is none."""
        path = self._path(seen)
        return ANSWERS.read(path) if path.exists() else None

    def ask(self, seen: PairToJudge) -> tuple[JudgeAnswer, bool]:
        """Return a known answer, or let the pair be judged and keep it; and whether it is new."""
        path = self._path(seen)
        with held(path):
            if found := self.known(seen):
                return found, False
            answer = self.judge.judge(seen)
            ANSWERS.write(path, answer, durable=True)
        return answer, True

    def _path(self, seen: PairToJudge) -> Path:
        """Name an answer by all that it depends on."""
        key = digest.of_json([self.judge.identity, list(seen)])
        return self.folder / key[:2] / f"{key}.json"


MODELS: Artifact[dict[Literal["model"], str]] = Json(
    "the model of a judge", dict[Literal["model"], str], remedy="Give the judge another name"
)
FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 60.0
SPENT: Artifact[dict[Literal["spent"], float]] = Json(
    "what a judge has cost",
    Annotated[dict[Literal["spent"], float], Field(min_length=1)],
    remedy='Write {"spent": AMOUNT} into it, with what the judge has cost so far',
)


@dataclass(frozen=True, slots=True)
class Purse:
    """The budget of one judge over all processes; a killed request stays counted at its most."""

    path: Path
    budget: float

    def reserve(self, most: float) -> None:
        """Count a request before it is sent."""
        with held(self.path):
            spent = self._spent()
            if spent + most > self.budget:
                raise HarnessError(
                    f"the judge has cost {spent:.4f} of its budget of {self.budget:g}, and the next"
                    f" request may cost {most:.4f}. Raise budget in its file; the same command goes"
                    " on"
                )
            self._write(spent + most)

    def correct(self, most: float, cost: float) -> None:
        """Replace what was reserved for a request by what it cost."""
        with held(self.path):
            self._write(max(0.0, self._spent() - most + cost))

    def _spent(self) -> float:
        return SPENT.read(self.path)["spent"] if self.path.exists() else 0.0

    def _write(self, spent: float) -> None:
        SPENT.write(self.path, {"spent": spent}, durable=True)


@dataclass(slots=True)
class RequestPace:
    """Spaces requests evenly."""

    per_minute: float
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    next_s: float = 0.0

    def turn(self) -> None:
        """Wait until the next request may be sent."""
        now = self.clock()
        if self.next_s > now:
            self.sleep(self.next_s - now)
        self.next_s = max(self.next_s, now) + 60.0 / self.per_minute

    def pause(self, failures: int, told_s: float | None) -> None:
        """Wait as long as the server asks for, or twice as long each time; never over a minute."""
        own = FIRST_PAUSE_S * 2.0 ** min(failures - 1, 10)
        self.sleep(min(LONGEST_PAUSE_S, own if told_s is None else told_s))


IN_A_ROW = 3
"""Pairs without a valid answer, one after the other, that end the command."""


@dataclass(frozen=True, slots=True)
class Labelled:
    """What a machine said of a pool."""

    labels: tuple[Label, ...]
    sent: int
    cost: float
    retries: int
    lacking: tuple[tuple[str, str, str], ...]


@dataclass(frozen=True, slots=True)
class Estimated:
    """What judging a pool would cost; nothing was sent."""

    pairs: int
    known: int
    tokens: float
    likely: float
    most: float


def estimate(path: Path, answers: AnswerFolder) -> Estimated:
    """Return what judging a pool costs; nothing is sent."""
    seen = [PairToJudge.of(pair) for pair in judgements.read_pool(path).pairs]
    fresh = {one: None for one in seen if answers.known(one) is None}
    bounds = [answers.judge.bound(one) for one in fresh]
    return Estimated(
        pairs=len(seen),
        known=sum(one not in fresh for one in seen),
        tokens=sum(one.tokens for one in bounds),
        likely=sum(one.likely for one in bounds),
        most=sum(one.most for one in bounds),
    )


def label(path: Path, answers: AnswerFolder, to: Path) -> Labelled:
    """Judge every pair of a pool and write ``to``; each answer is kept before the next request."""
    judge = answers.judge
    check_new(
        to,
        reads=(path, judgements.texts_path(path)),
        ours=lambda file: judgements.only_of(file, {judge.name}),
    )
    pool = judgements.read_pool(path)
    labels: list[Label] = []
    lacking: list[tuple[str, str, str]] = []
    sent: list[JudgeAnswer] = []
    first = answers.folder / "model.json"
    models = dict.fromkeys(MODELS.read(first).values()) if first.exists() else {}
    row = 0
    with progress(f"judged by {judge.name}", len(pool.pairs)) as advance:
        for pair in pool.pairs:
            try:
                answer, is_new = answers.ask(PairToJudge.of(pair))
            except Unlabelled as exc:
                lacking.append((pair.query_id, pair.doc_id, str(exc)))
                row += 1
                if row == min(IN_A_ROW, len(pool.pairs)):
                    raise
            else:
                row = 0
                models |= {answer.model: None}
                if len(models) > 1:
                    raise InvalidArm(
                        f"INVALID: the judge {judge.name} changed its model: {', '.join(models)}."
                        " No label is written. Pin the model in its file, and give the judge"
                        " another name"
                    )
                if not first.exists():
                    MODELS.write(first, {"model": answer.model}, durable=True)
                sent += [answer] * is_new
                labels.append(
                    Label(
                        query_id=pair.query_id,
                        doc_id=pair.doc_id,
                        grade=answer.grade(tuple(sorted(pair.scale))),
                        kind="machine",
                        by=judge.name,
                        model=answer.model,
                        template=judge.template,
                        probabilities=answer.probabilities,
                        cost=answer.cost,
                        note=answer.note,
                    )
                )
            advance(1)
    judgements.write_labels(to, labels)
    cost, retries = sum(one.cost for one in sent), sum(one.retries for one in sent)
    return Labelled(tuple(labels), len(sent), cost, retries, tuple(lacking))
