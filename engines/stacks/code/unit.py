"""A unit: one document as code search sees it, its text in fields and its properties beside."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

SEPARATOR = "->"
"""Between the source and the sink of a flow."""


class Mode(StrEnum):
    """The kinds of units, each ranked by itself; ``MIXED`` fuses their rankings."""

    CODE = "code"
    PROSE = "prose"
    RECORDS = "records"
    MIXED = "mixed"


class Texts(NamedTuple):
    """Text of a unit by field; each has a weight of its own."""

    name: str = ""
    signature: str = ""
    doc: str = ""
    comment: str = ""
    body: str = ""


FIELDS = Texts._fields


class Risk(NamedTuple):
    """What a rule of ``engines.stacks.code.reading.risk`` found."""

    tag: str
    category: str
    severity: int
    """1 low, 2 medium, 3 high."""
    source: str = ""
    sink: str = ""

    @property
    def flow(self) -> str:
        """``source->sink`` where one was seen to reach the other; else empty."""
        return f"{self.source}{SEPARATOR}{self.sink}" if self.source and self.sink else ""


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known of a unit beside its words."""

    type: str
    """``function``, ``method``, ``class``, ``constant``, ``module``, ``section``, ``record`` or
    ``text``."""
    symbol: str = ""
    """Bare name of what the unit defines; empty where it defines nothing."""
    full: str = ""
    """The qualified name, e.g. ``pandas.DataFrame.merge``; the bare one where no more is known."""
    exported: bool = False
    """Whether users of the package may name it: no part of its name begins with an underscore."""
    signature: str = ""
    params: tuple[str, ...] = ()
    inferred_types: tuple[str, ...] = ()
    return_type: str = ""
    uses: tuple[str, ...] = ()
    calls: tuple[str, ...] = ()
    imports: tuple[str, ...] = ()
    links: tuple[str, ...] = ()
    """Names under See Also, and names marked as references in prose."""
    risks: tuple[Risk, ...] = ()


@dataclass(frozen=True, slots=True)
class Unit:
    """One document, understood."""

    doc_id: str
    mode: Mode
    lang: str
    """Lower case; empty where no one can tell."""
    path: str
    """With forward slashes; the document's id where it has no path."""
    texts: Texts
    facts: Facts
    lines: str = ""
    """First and last line in the file, from 1, as ``12-34``; empty where that is unknown."""

    @property
    def file(self) -> str:
        """The last part of the path."""
        return self.path.rpartition("/")[2]

    @property
    def ext(self) -> str:
        """What follows the last dot of the file, lower-cased, without the dot; may be empty."""
        stem, dot, ext = self.file.rpartition(".")
        return ext.lower() if dot and stem else ""
