"""Hints in a typed text, such as ``from:Ann``: read, taken out, and near misses pointed at."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

NEAR = 2
"""Edit distance up to which an unknown field is taken for a slip of the pen."""

_PIECE = re.compile(
    r'"[^"]*"|(?<!\S)(?P<field>[A-Za-z_]+):(?P<value>"[^"]+"|[^\s"]+)(?!\S)', re.ASCII
)


class Field(StrEnum):
    """What may be hinted at."""

    FROM = "from"
    THREAD = "thread"
    PROJECT = "project"
    BEFORE = "before"
    AFTER = "after"
    IMPORTANCE = "importance"


ALIASES = {
    Field.FROM: ("from_agent", "sender", "sender_name"),
    Field.THREAD: ("thread_id",),
    Field.PROJECT: ("project_key", "project_slug", "proj"),
    Field.BEFORE: ("until", "date_end", "date_to"),
    Field.AFTER: ("since", "date_start", "date_from"),
    Field.IMPORTANCE: ("priority",),
}
_FIELD_OF = {name: field for field, names in ALIASES.items() for name in (field.value, *names)}


@dataclass(frozen=True, slots=True)
class Hint:
    """One hint: its field, its value without quotation marks, and how it was typed."""

    field: Field
    value: str
    typed: str


@dataclass(frozen=True, slots=True)
class Slip:
    """A field that there is not, and what may have been meant."""

    typed: str
    meant: str


@dataclass(frozen=True, slots=True)
class Typed:
    """A text without its hints; what is not a hint stays in it, slips included."""

    text: str
    taken: tuple[Hint, ...]
    slips: tuple[Slip, ...]


def read(text: str, takes: Callable[[Hint], bool]) -> Typed:
    """Take hints out of ``text``; one that ``takes`` says no to is left in, as words.

    A hint stands by itself, and nothing within quotation marks is one. A text without hints comes
    back untouched.
    """
    taken: list[Hint] = []
    slips: list[Slip] = []

    def without(piece: re.Match[str]) -> str:
        name, typed = piece["field"], piece[0]
        if name is None:
            return typed
        field = _FIELD_OF.get(name.lower())
        if field is None:
            meant = _meant(name.lower())
            if meant is not None:
                slips.append(Slip(typed, f"{meant}:{piece['value']}"))
            return typed
        hint = Hint(field, piece["value"].strip('"'), typed)
        if not takes(hint):
            return typed
        taken.append(hint)
        return ""

    left = _PIECE.sub(without, text)
    return Typed(" ".join(left.split()) if taken else text, tuple(taken), tuple(slips))


def distance(one: str, other: str) -> int:
    """Fewest letters put in, left out or replaced to get from one word to the other.

    V. Levenshtein, Binary codes capable of correcting deletions, insertions, and reversals, 1966.
    """
    row = list(range(len(other) + 1))
    for at, letter in enumerate(one, start=1):
        above = row
        row = [at]
        for column, against in enumerate(other, start=1):
            replaced = above[column - 1] + (letter != against)
            row.append(min(replaced, above[column] + 1, row[-1] + 1))
    return row[-1]


def _meant(name: str) -> Field | None:
    """Give the nearest field within reach, of equally near ones the first by name."""
    away, field = min((distance(name, field), field) for field in Field)
    return field if away <= NEAR else None
