"""A line of a page as it is typed in a test: its words in capitals filled, its numbers small."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import dropwhile
from typing import TypeVar

from tests.docs.pages import ASSIGNED, COMMAND
from tests.docs.tables import FILLED, MOST_ARMS, SMALLER, WRITES

CAPITALS = re.compile(r"[A-Z][A-Z_@]+")
OPTION = re.compile(r"{(--[a-z-]+)}")
NAMED = "NAME"
T = TypeVar("T")


class NotFilled(LookupError):
    """A word in capitals of which nothing is said."""


def after(line: str) -> str:
    """Give what follows ``python3 run.py``; of a script, the script."""
    words = list(dropwhile(ASSIGNED.match, shlex.split(line, comments=True)))
    return shlex.join(words).removeprefix(COMMAND).strip()


def row(table: Mapping[str, T], line: str) -> tuple[str, T] | None:
    """Give the longest key that the line begins with, word by word, and its entry."""
    said = after(line)
    fits = [key for key in table if said == key or (key and f"{said} ".startswith(f"{key} "))]
    best = max(fits, key=len, default=None)
    return None if best is None else (best, table[best])


@dataclass
class Filling:
    """Fills the lines of one page; each ``--name NAME`` is another name, for each is kept."""

    names: list[str] = field(default_factory=list)

    def filled(self, line: str) -> str:
        """Fill words in capitals and put small numbers in the place of large ones.

        Raises:
            NotFilled: a word in capitals is not in the table.
        """
        if f"--name {NAMED}" in line:
            self.names.append(f"{FILLED[NAMED]}{len(self.names)}")
        words = [self._word(word) for word in shlex.split(line, comments=True)]
        small = row(SMALLER, line)
        for option, value in small[1].items() if small else ():
            if option in words:
                words[words.index(option) + 1] = value
            else:
                words += [option, value]
        if "--arms" in words:
            at = words.index("--arms") + 1
            words[at] = ",".join(_few(words[at].split(","), words))
        return shlex.join(words)

    def _word(self, word: str) -> str:
        return "/".join(self._part(part, word) for part in word.split("/"))

    def _part(self, part: str, word: str) -> str:
        if not CAPITALS.fullmatch(part):
            return part
        if part == NAMED and self.names:
            return self.names[-1]
        if part not in FILLED:
            raise NotFilled(f"{word}: say in tests/docs/tables.py, FILLED, what {part} stands for")
        return FILLED[part]


def _few(arms: list[str], words: list[str]) -> list[str]:
    """Keep the first arms, and the control wherever it stands."""
    control = words[words.index("--control") + 1] if "--control" in words else ""
    return [arm for at, arm in enumerate(arms) if at < MOST_ARMS or arm == control]


def written(line: str) -> Iterator[str]:
    """Name the files that a filled line writes, as far as it has the options that say where."""
    found = row(WRITES, line)
    words = shlex.split(line)
    for path in found[1] if found else ():
        options = OPTION.findall(path)
        if all(option in words for option in options):
            yield OPTION.sub(lambda option: words[words.index(option[1]) + 1], path)
