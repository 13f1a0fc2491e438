"""What a machine that judges is given, and what it gives back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from harness.core import digest
from harness.core.errors import HarnessError, InvalidArm
from harness.corpus.pool import Pair


class Seen(NamedTuple):
    """What is judged: the same that a person is shown."""

    query: str
    title: str
    text: str
    scale: tuple[int, ...]
    """Grades, the lowest first."""

    @classmethod
    def of(cls, pair: Pair) -> Seen:
        """Take what is shown of a pair; neither its ids nor what it is worth are."""
        return cls(pair.query, pair.title, pair.snippet, tuple(sorted(pair.scale)))


class Bound(NamedTuple):
    """What one request may cost before it is sent."""

    tokens: float
    """About how many it sends."""
    likely: float
    most: float


@dataclass(frozen=True, slots=True)
class Answer:
    """What a judge says of one pair."""

    probabilities: tuple[float, ...]
    """Of each grade, the lowest first; they add up to 1."""
    model: str
    """Model that answered, as it calls itself."""
    cost: float = 0.0
    note: str = ""
    retries: int = 0
    """Attempts before this one that gave no answer."""

    def grade(self, scale: Sequence[int]) -> int:
        """Give the most probable grade, of equals the lowest."""
        return scale[int(np.argmax(self.probabilities))]


class Judge(Protocol):
    """Gives a pair a distribution over grades."""

    @property
    def name(self) -> str:
        """How people call it; the name of its answers."""
        ...

    @property
    def template(self) -> str:
        """SHA-256 of its instructions; empty where it has none."""
        ...

    @property
    def identity(self) -> str:
        """Everything that an answer depends on beside the pair, as far as it is stated."""
        ...

    def bound(self, seen: Seen) -> Bound:
        """Say what judging a pair costs; nothing is sent."""
        ...

    def judge(self, seen: Seen) -> Answer:
        """Judge a pair.

        Raises:
            Unlabelled: no valid answer came, and another pair may have one.
            HarnessError: the judge cannot go on.
        """
        ...


class Unlabelled(HarnessError):
    """A judge gave a pair no valid answer."""


class JudgeChanged(InvalidArm):
    """A judge answered with two models."""

    def __init__(self, name: str, models: Sequence[str]) -> None:
        super().__init__(
            f"INVALID: the judge {name} changed its model: {', '.join(models)}. No label is"
            " written. Pin the model in its file, and give the judge another name"
        )


FREE = Bound(0.0, 0.0, 0.0)


def key_of(judge: Judge, seen: Seen) -> str:
    """Name an answer by all that it depends on."""
    return digest.of_json([judge.identity, list(seen)])


def cumulative(score: float, cuts: Sequence[float], slope: float) -> tuple[float, ...]:
    """Turn a score into probabilities of grades, of which there is one more than ``cuts``.

    The probability of a grade above the k-th is the logistic function of slope times (score less
    the k-th cut). ``cuts`` ascend. It is the proportional odds model (McCullagh, Journal of the
    Royal Statistical Society B 42, 1980).
    """
    away = np.clip(slope * (score - np.array(cuts)), -700, 700)
    above = np.concatenate([[1.0], 1 / (1 + np.exp(-away)), [0.0]])
    return tuple((above[:-1] - above[1:]).tolist())
