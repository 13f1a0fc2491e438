"""What of a log line is a query, by stated rules; every line that is left out has its reason."""

from __future__ import annotations

import re
import unicodedata
from collections import OrderedDict
from enum import StrEnum
from typing import NamedTuple

from harness.core.printable import FORBIDDEN

LONGEST = 512
"""Characters; what is longer was pasted, and is not typed by a person."""
SESSIONS = 100_000
"""Sessions whose last query is remembered; beyond, the one longest silent is forgotten."""
ROBOT = re.compile(r"(?i)bot\b|crawl|spider|slurp|curl/|wget/|python-requests|monitor|uptime")


class Left(StrEnum):
    """Why a line is not counted."""

    BROKEN = "the line is cut off or malformed"
    NO_QUERY = "it has no query"
    ERROR = "the server reported an error"
    ROBOT = "a robot sent it"
    LONG = f"it is longer than {LONGEST} characters"
    WORDLESS = "it has no letter and no digit"
    REPEATED = "its session sent the same query just before"


class Entry(NamedTuple):
    """One request of a log."""

    text: str
    results: int | None = None
    """Documents that were shown; None where the log does not say."""
    session: str = ""
    """Whoever sent it; empty where the log does not say."""
    status: int = 200
    agent: str = ""


def plain(text: str) -> str:
    """Compose characters (NFC), drop control characters and trim white space."""
    return " ".join(FORBIDDEN.sub(" ", unicodedata.normalize("NFC", text)).split())


class Cleaner:
    """Applies the rules in the order of ``Left``; remembers sessions within a bound."""

    def __init__(self) -> None:
        self._last: OrderedDict[str, str] = OrderedDict()
        self.sessions = 0
        """Sessions that were seen; one that was forgotten counts once more."""

    def left(self, entry: Entry) -> Left | None:
        """Say why an entry with a ``plain`` text is left out; None where it counts."""
        if not entry.text:
            return Left.NO_QUERY
        if entry.status >= 400:  # noqa: PLR2004  HTTP's errors begin here
            return Left.ERROR
        if ROBOT.search(entry.agent):
            return Left.ROBOT
        if len(entry.text) > LONGEST:
            return Left.LONG
        if not any(map(str.isalnum, entry.text)):
            return Left.WORDLESS
        return Left.REPEATED if self._repeats(entry) else None

    def _repeats(self, entry: Entry) -> bool:
        if not entry.session:
            return False
        known = self._last.pop(entry.session, None)
        self.sessions += known is None
        self._last[entry.session] = entry.text
        if len(self._last) > SESSIONS:
            self._last.popitem(last=False)
        return known == entry.text
