"""The judging form: a pair at a time, a key a grade, as ``harness judge`` has it in a terminal.

The server keeps no state. The address holds the position and what was done before. The form holds
the grade that the pair had when it was shown; a new grade is written only if it is unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import parse_qsl, quote, urlencode

from harness.core import digest
from harness.core.errors import HarnessError
from harness.core.reading import Malformed, text_of
from harness.corpus import pool as pools
from harness.corpus.pool import Overtaken, Pair, Pool
from harness.stages.judging.judge import BACK, SKIP
from harness.stages.judging.sampling import following, standing

REMEMBERED = 50
"""How many pairs can be taken back."""
DIGITS = 9
"""Most digits of a number; a longer text names neither a grade nor a place."""
FORM_BYTES = 65_536
MAX_GUIDELINES_BYTES = 65_536
FIELDS = {"key", "pair", "was", "done"}


class BadForm(HarnessError):
    """What was sent is not what the form sends."""


@dataclass(frozen=True, slots=True)
class Sitting:
    """Where one who judges is."""

    key: str
    """The pool's key."""
    path: Path
    pool: Pool
    at: int
    """Place of the pair that is shown; the number of pairs behind the last one."""
    done: tuple[int, ...]
    """Places that were left before, the latest last."""
    notice: str = ""
    settles: str = ""
    """How far the pool has settled its gate, or why that is unknown; empty for other pools."""

    @property
    def pair(self) -> Pair | None:
        return self.pool.pairs[self.at] if self.at < len(self.pool.pairs) else None

    @property
    def was(self) -> int | None:
        """Grade of the pair that is shown."""
        return self.pool.grades[self.at]

    @property
    def before(self) -> Sitting | None:
        """Where one is after taking the last pair back; None where there is none."""
        if not self.done:
            return None
        return replace(self, at=self.done[-1], done=self.done[:-1], notice="")

    @property
    def word(self) -> str:
        """Name of the pair that is shown."""
        return word_for(self.pool.pairs[self.at])

    @property
    def guidelines(self) -> str:
        """What a grade means, as a file beside the pool says; empty without one, or for a link."""
        path = self.path.with_name(pools.GUIDELINES)
        try:
            return "" if path.is_symlink() else text_of(path, most=MAX_GUIDELINES_BYTES)
        except (OSError, Malformed):
            return ""

    @property
    def judged(self) -> int:
        return len(self.pool.judgements)

    @property
    def trail(self) -> str:
        """``done`` as it stands in addresses and forms."""
        return ".".join(map(str, self.done))

    @property
    def url(self) -> str:
        where = urlencode({"at": self.at, "done": self.trail})
        return f"/judge/{quote(self.key)}?{where}"

    def after(self) -> Sitting:
        """Go on to the next open pair."""
        following = (at for at in self.pool.open if at > self.at)
        at = next(following, len(self.pool.pairs))
        return replace(self, at=at, done=(*self.done, self.at)[-REMEMBERED:])


def sit(key: str, path: Path, asked: Mapping[str, str]) -> Sitting:
    """Sit down where the address says, at the first open pair where it says nothing.

    Raises:
        BadFile: the pool cannot be read.
    """
    found = pools.read(path)
    places = range(len(found.pairs))
    said = _number(asked.get("at", ""))
    first = min(found.open, default=len(places))
    at = first if said is None else min(said, len(places))
    settles = "" if found.open else _settles(path)
    return Sitting(key, path, found, at, _trail(asked.get("done", ""), places), "", settles)


def press(key: str, path: Path, body: bytes) -> Sitting:
    """Do what a key of the form says, and give where one is then, with a notice if nothing is done.

    Raises:
        BadForm: it is not what the form sends.
        BadFile: the pool cannot be read, or the pair is gone from it.
        Overtaken: somebody else judged the pair since it was shown.
    """
    sent = _fields(body)
    found = pools.read(path)
    at = _place(found, sent["pair"])
    here = Sitting(key, path, found, at, _trail(sent["done"], range(len(found.pairs))))
    pair, pressed, was = found.pairs[at], sent["key"], _grade(sent["was"])
    if pressed == SKIP:
        return here.after()
    if pressed == BACK:
        return replace(here, pool=pools.regrade(path, pair, was, None))
    grade = _number(pressed)
    if grade is None or grade not in pair.scale:
        raise BadForm(f"{pressed!r} is not a key")
    graded = pools.regrade(path, pair, was, grade)
    return replace(here, pool=graded if graded.open else _with_more(path, graded)).after()


def _with_more(path: Path, judged: Pool) -> Pool:
    """Give the pool with the next pairs of its gate; its page says why, if there are none."""
    with suppress(HarnessError):
        if seen := following(path):
            return seen.pool
    return judged


def _settles(path: Path) -> str:
    try:
        seen = standing(path)
    except HarnessError as exc:
        return str(exc)
    return seen.words if seen else ""


def again(key: str, path: Path, body: bytes, why: Overtaken) -> Sitting:
    """Show the pair again whose grade was not written, as it is judged by now, and say why.

    Raises:
        BadFile: the pool cannot be read.
    """
    sent = _fields(body)
    found = pools.read(path)
    done = _trail(sent["done"], range(len(found.pairs)))
    return Sitting(key, path, found, _place(found, sent["pair"]), done, str(why))


def _fields(body: bytes) -> Mapping[str, str]:
    try:
        found = dict(
            parse_qsl(
                body.decode("ascii"), keep_blank_values=True, strict_parsing=True,
                errors="strict", max_num_fields=len(FIELDS),
            )
        )  # fmt: skip
    except ValueError as exc:
        raise BadForm("it cannot be read") from exc
    if set(found) != FIELDS:
        raise BadForm(f"its fields are {', '.join(sorted(FIELDS))}")
    return found


def word_for(pair: Pair) -> str:
    """Name a pair in a form, whatever characters its ids have."""
    return digest.of_json([pair.query_id, pair.doc_id])


def _place(pool: Pool, word: str) -> int:
    """Find a pair where it stands now; lines may have been moved since it was shown."""
    found = (at for at, pair in enumerate(pool.pairs) if word_for(pair) == word)
    at = next(found, None)
    if at is None:
        raise BadForm("the pair is not in this pool any more; begin again from the front page")
    return at


def _grade(text: str) -> int | None:
    found = _number(text)
    if text and found is None:
        raise BadForm(f"{text!r} is not a grade")
    return found


def _trail(text: str, places: range) -> tuple[int, ...]:
    """Read places with dots between; what is none is left out."""
    found = map(_number, text.split(".")[-REMEMBERED:])
    return tuple(at for at in found if at is not None and at in places)


def _number(text: str) -> int | None:
    return int(text) if len(text) <= DIGITS and text.isdecimal() else None
