"""Topics of TREC: the classic tagged format, and a table of two columns."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from harness.core.errors import BadFile
from harness.core.reading import numbered
from harness.core.records import Query
from harness.corpus.cells import columns
from harness.corpus.lines import SPACES, checked_id

TAG = re.compile(r"<(/?[A-Za-z][A-Za-z0-9_-]*)>")
LABEL = {"num": re.compile(r"\s*Number:", re.IGNORECASE), "title": re.compile(r"\s*Topic:")}


def tagged(path: Path) -> tuple[Query, ...]:
    """Read ``<top> <num> Number: 301 <title> words ... </top>`` blocks; the title is the query.

    A field runs to the next tag. Description and narrative are passed over.

    Raises:
        BadFile: a block has no number or no title, is not closed, a number comes twice, or the
            file has no block.
    """
    return _collect(path, _blocks(path))


def table(path: Path) -> tuple[Query, ...]:
    """Read ``id<TAB>text`` lines, in which a text may hold further tabs, or columns by their names.

    Raises:
        BadFile: a line has no tab, an id comes twice, or the file is empty.
    """
    return _collect(path, _rows(path))


@dataclass(slots=True)
class _Block:
    opened: int
    parts: dict[str, list[str]] = field(default_factory=dict)
    inside: str = ""

    def add(self, text: str) -> None:
        self.parts.setdefault(self.inside, []).append(text)

    def text(self, name: str) -> str:
        joined = " ".join(self.parts.get(name, []))
        return " ".join(LABEL[name].sub("", joined, count=1).split())


def _blocks(path: Path) -> Iterator[tuple[int, str, str]]:
    block: _Block | None = None
    for number, line in numbered(path):
        before, *tagged_parts = TAG.split(line)
        if block is not None:
            block.add(before)
        for tag, text in zip(tagged_parts[::2], tagged_parts[1::2], strict=True):
            name = tag.lower()
            if name == "top":
                if block is not None:
                    raise _unclosed(path, block)
                block = _Block(number)
            elif block is not None and name == "/top":
                yield _topic(path, block)
                block = None
            elif block is not None:
                block.inside = "" if name.startswith("/") else name
                block.add(text)
    if block is not None:
        raise _unclosed(path, block)


def _unclosed(path: Path, block: _Block) -> BadFile:
    return BadFile(path, "this <top> is not closed", "End it with </top>.", block.opened)


def _topic(path: Path, block: _Block) -> tuple[int, str, str]:
    num, title = block.text("num"), block.text("title")
    for name, found in (("num", num), ("title", title)):
        if not found:
            problem = f"this topic has no <{name}>"
            raise BadFile(path, problem, f"Add a line <{name}> ...", block.opened)
    return block.opened, num, title


def _rows(path: Path) -> Iterator[tuple[int, str, str]]:
    at: tuple[int, ...] | None = None
    first = True
    for number, line in numbered(path):
        if first:
            at, first = columns.places(line.split("\t"), (columns.ID, columns.TEXT)), False
            if at:
                continue
        query_id, tab, text = line.partition("\t")
        if at:
            cells = line.split("\t")
            query_id, text = (cells[place] if place < len(cells) else "" for place in at)
        if not tab or not text.strip():
            raise BadFile(path, "the line has no second column", "Write: id<TAB>text.", number)
        yield number, query_id.strip(SPACES), text


def _collect(path: Path, found: Iterable[tuple[int, str, str]]) -> tuple[Query, ...]:
    seen: dict[str, int] = {}
    kept: list[Query] = []
    for number, query_id, text in found:
        checked_id(path, number, "query", query_id)
        if query_id in seen:
            problem = f"the query {query_id} is on line {seen[query_id]} already"
            raise BadFile(path, problem, "Give every query its own id.", number)
        seen[query_id] = number
        kept.append(Query(query_id, text))
    if not kept:
        raise BadFile(path, "it holds no query", "Check that this is a file of topics.")
    return tuple(kept)
