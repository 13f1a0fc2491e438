"""A machine that judges a pool: its file, answers and cost, and labels that say who judged."""

import re
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

import numpy as np
from pydantic import Field, TypeAdapter, field_validator

from harness.core import digest
from harness.core.errors import DatasetError, HarnessError, InvalidArm
from harness.core.files import held
from harness.core.formats import toml_file
from harness.core.names import Name
from harness.core.store import Artifact, Json, StrictModel
from harness.corpus.judgements import JudgingPair

REMEDY = "docs/judging.md lists the keys"
MINUTES = 24 * 60
Text = Annotated[str, Field(min_length=1)]
Price = Annotated[float, Field(ge=0)]
Cuts = Annotated[tuple[float, ...], Field(min_length=1, strict=False)]


class _Settings(StrictModel):
    name: Name
    """The judge's name: its answers are kept under it."""


class EndpointSettings(_Settings):
    """A model behind an OpenAI-compatible endpoint. All keys must be given."""

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


class WordOverlapSettings(_Settings):
    """A rule; a score is the share of the query's words that the document has."""

    kind: Literal["overlap"]
    cuts: Cuts
    """Scores between one grade and the next, ascending: one fewer than the scale has grades."""
    slope: Annotated[float, Field(gt=0)]
    """How sharply the grades divide there."""

    @field_validator("cuts")
    @classmethod
    def _ascend(cls, cuts: tuple[float, ...]) -> tuple[float, ...]:
        if any(high <= low for low, high in pairwise(cuts)):
            raise ValueError("they do not ascend")
        return cuts


Settings = EndpointSettings | WordOverlapSettings
_SETTINGS: TypeAdapter[Settings] = TypeAdapter(Annotated[Settings, Field(discriminator="kind")])
JUDGES = Artifact(
    "the file of a judge",
    lambda path: _SETTINGS.validate_python(toml_file(path)),
    remedy=REMEDY,
)


read = JUDGES.read


class PairToJudge(NamedTuple):
    """What is judged: the same that a person is shown."""

    query: str
    title: str
    text: str
    scale: tuple[int, ...]

    @classmethod
    def of(cls, pair: JudgingPair) -> "PairToJudge":
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


class Judge(ABC):
    """Gives a pair a distribution over grades."""

    def __init__(self, name: str, identity: str, template: str = "") -> None:
        self.name = name
        """How people call it; the name of its answers."""
        self.identity = identity
        """Everything that an answer depends on beside the pair, as far as it is stated."""
        self.template = template
        """SHA-256 of its instructions; empty where it has none."""

    def bound(self, seen: PairToJudge) -> CostBound:
        """Return what judging a pair costs; nothing is sent. A judge of this machine is free."""
        del seen
        return CostBound(0.0, 0.0, 0.0)

    @abstractmethod
    def judge(self, seen: PairToJudge) -> JudgeAnswer:
        """Judge a pair."""


def cumulative(score: float, cuts: Sequence[float], slope: float) -> tuple[float, ...]:
    """Turn a score into probabilities of grades, of which there is one more than ``cuts``.

    The probability of a grade above the k-th is the logistic function of slope times (score less
    the k-th cut). ``cuts`` ascend. It is the proportional odds model (McCullagh, Journal of the
    Royal Statistical Society B 42, 1980).
    """
    away = np.clip(slope * (score - np.array(cuts)), -700, 700)
    above = np.concatenate([[1.0], 1 / (1 + np.exp(-away)), [0.0]])
    return tuple((above[:-1] - above[1:]).tolist())


MODEL = "model.json"
ANSWERS: Artifact[JudgeAnswer] = Json(
    "an answer of a judge", JudgeAnswer, remedy="Remove it; the pair is paid anew"
)
MODELS: Artifact[dict[Literal["model"], str]] = Json(
    "the model of a judge",
    Annotated[dict[Literal["model"], str], Field(min_length=1)],
    remedy="Give the judge another name",
)


@dataclass(frozen=True, slots=True)
class AnswerFolder:
    """The folder of one judge; several commands may use it at once."""

    folder: Path
    judge: Judge

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
            if len(answer.probabilities) != len(seen.scale):
                raise DatasetError(
                    f"the judge {self.judge.name} tells {len(answer.probabilities)} grades apart,"
                    f" and the pool has {len(seen.scale)}: {', '.join(map(str, seen.scale))}."
                    " Change cuts in its file"
                )
            ANSWERS.write(path, answer, durable=True)
        return answer, True

    def check_model(self, model: str) -> None:
        """Check that the model is the one that answered first."""
        path = self.folder / MODEL
        with held(path):
            if not path.exists():
                MODELS.write(path, {"model": model}, durable=True)
            first = MODELS.read(path)["model"]
        if first != model:
            raise InvalidArm(
                f"INVALID: the judge {self.judge.name} changed its model: {first}, {model}. No"
                " label is written. Pin the model in its file, and give the judge another name"
            )

    def _path(self, seen: PairToJudge) -> Path:
        """Name an answer by all that it depends on."""
        key = digest.of_json([self.judge.identity, list(seen)])
        return self.folder / key[:2] / f"{key}.json"


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


WORD = re.compile(r"\w+")


class Overlap(Judge):
    """Scores a pair by the share of the query's words that title and text have."""

    def __init__(self, settings: WordOverlapSettings) -> None:
        super().__init__(settings.name, settings.model_dump_json())
        self._settings = settings

    def judge(self, seen: PairToJudge) -> JudgeAnswer:
        asked = set(WORD.findall(seen.query.casefold()))
        has = set(WORD.findall(f"{seen.title} {seen.text}".casefold()))
        shared = len(asked & has) / len(asked) if asked else 0.0
        found = cumulative(shared, self._settings.cuts, self._settings.slope)
        note = f"{len(asked & has)} of {len(asked)} words"
        return JudgeAnswer(found, "word overlap", note=note)
