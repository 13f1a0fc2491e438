"""Questions drawn from texts, known both as typed and as what they mean."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

WORD = re.compile(r"[^\W_]+")
Part = tuple[str, str, tuple[str, ...]]
"""A sign (space, + or -), a kind (word, phrase, joined or prefix), and its words."""


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked for, part by part."""

    parts: tuple[Part, ...]

    @property
    def typed(self) -> str:
        """As somebody types it."""
        return " ".join(sign.strip() + _written(kind, words) for sign, kind, words in self.parts)


def _written(kind: str, words: Sequence[str]) -> str:
    if kind == "joined":
        return "-".join(words)
    return {"phrase": '"{}"', "prefix": "{}*"}.get(kind, "{}").format(" ".join(words))


def words_of(text: str) -> list[str]:
    """Split into lower-cased runs of letters and digits."""
    return [word.lower() for word in WORD.findall(text)]


def any_of(text: str) -> Question:
    """Ask for any word of ``text``, each once."""
    return Question(tuple((" ", "word", (word,)) for word in dict.fromkeys(words_of(text))))


def drawn(texts: Sequence[str], count: int, seed: int, *, prefixes: bool) -> list[Question]:
    """Draw ``count`` questions: in nine of 20 one to five words, else something harder.

    The words of a question stand in one text; those are ASCII, since engines differ in what
    letters are.
    """
    rng = Random(seed)
    questions: list[Question] = []
    split = [
        row for text in texts if len(row := [w for w in words_of(text) if w.isascii()]) > MOST_WORDS
    ]
    shapes = SHAPES if prefixes else tuple(shape for shape in SHAPES if shape != "prefix")
    while len(questions) < count:
        row, shape = rng.choice(split), rng.choice(shapes)
        questions.append(Question(tuple(_parts(rng, row, shape))))
    return questions


MOST_WORDS = 5
SHAPES = (
    *("words",) * 9,
    *("phrase", "phrase", "phrase and word", "joined", "joined and word"),
    *("must", "all", "not", "any and must", "prefix", "prefix"),
)


def _parts(rng: Random, row: Sequence[str], shape: str) -> list[Part]:
    one, other, third = rng.sample(row, 3)
    length = rng.randint(2, 3)
    at = rng.randrange(len(row) - length)
    run = tuple(row[at : at + length])
    found: dict[str, list[Part]] = {
        "words": [(" ", "word", (word,)) for word in rng.sample(row, rng.randint(1, MOST_WORDS))],
        "phrase": [(" ", "phrase", run)],
        "phrase and word": [(" ", "phrase", run), (" ", "word", (one,))],
        "joined": [(" ", "joined", run)],
        "joined and word": [(" ", "word", (one,)), (" ", "joined", run)],
        "must": [("+", "word", (one,)), (" ", "word", (other,))],
        "all": [("+", "word", (one,)), ("+", "word", (other,))],
        "not": [(" ", "word", (one,)), ("-", "word", (other,))],
        "any and must": [(" ", "word", (one,)), (" ", "word", (other,)), ("+", "word", (third,))],
        "prefix": [(" ", "prefix", (one[: rng.randint(2, 4)],)), (" ", "word", (other,))],
    }
    return found[shape]
