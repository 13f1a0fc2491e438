"""An engine under check: its index is built and open, and its answers are kept."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from harness.core.disk import FULL, refusal
from harness.core.engine import Answer, Engine, Hit, Manifest, Searcher
from harness.core.printable import one_line
from harness.core.records import Document
from harness.replay.ask import BrokenAnswer, copied
from harness.stages.contract.documents import COMMON, DOCUMENTS, OBVIOUS

K = 20
"""Hits asked for; all sample documents, so that every tie is seen."""
QUOTED = 40
"""Characters of a query that a message quotes."""
LONG = 1_000
"""Words of the long texts, unless another number is named."""


ShownHits = list[tuple[str, float]]
"""Ids and scores in order: what a comparison of two answers rests on."""


class NotChecked(Exception):
    """A check has nothing to look at; the message says why."""


class Named(NamedTuple):
    """How another process finds the engine."""

    name: str
    """Name of an arm, or path to its TOML file."""
    cache: Path


class QueryOutcome(NamedTuple):
    """One query, and what came back: an answer, or an error in words."""

    text: str
    k: int
    answer: Answer | None
    error: str = ""

    @property
    def hits(self) -> tuple[Hit, ...]:
        """What was shown; nothing where the query failed."""
        return self.answer.hits if self.answer else ()

    def __str__(self) -> str:
        return f"{quoted(self.text)} (k = {self.k:,})"


@dataclass(frozen=True, eq=False)
class Subject:
    """An engine with an open index of ``documents``."""

    engine: Engine
    built: Manifest
    """What ``build`` gave."""
    index: Path
    searcher: Searcher
    documents: Sequence[Document] = DOCUMENTS
    texts: Sequence[str] = (*OBVIOUS, *COMMON)
    """Queries with words of the documents."""
    arm: Named | None = field(default=None, kw_only=True)
    """None where the engine is an object of this process."""
    long_words: int = field(default=LONG, kw_only=True)

    @cached_property
    def known(self) -> frozenset[str]:
        """Ids of the documents."""
        return frozenset(document.doc_id for document in self.documents)

    @cached_property
    def asked(self) -> tuple[QueryOutcome, ...]:
        """Every text with its answer."""
        return tuple(ask(self.searcher, text, K) for text in self.texts)

    def answered(self) -> tuple[QueryOutcome, ...]:
        """Give the queries with an answer that can be read.

        Raises:
            NotChecked: no query has one.
        """
        found = tuple(one for one in self.asked if one.answer)
        if not found:
            raise NotChecked("no query was answered")
        return found

    @contextmanager
    def scratch(self) -> Iterator[Path]:
        """Give an empty folder beside the index for as long as the block runs."""
        with TemporaryDirectory(dir=self.index.parent) as folder:
            yield Path(folder)


@contextmanager
def standing(
    engine: Engine,
    scratch: Path,
    documents: Sequence[Document] = DOCUMENTS,
    texts: Sequence[str] = (*OBVIOUS, *COMMON),
    arm: Named | None = None,
) -> Iterator[Subject]:
    """Build an index in the folder ``scratch`` and open it.

    Raises:
        HarnessError: the engine raises it when it builds or opens.
    """
    index = scratch / "index"
    index.mkdir()
    built = engine.build(iter(documents), index)
    with engine.open(index) as searcher:
        yield Subject(engine, built, index, searcher, documents, texts, arm=arm)


def ask(searcher: Searcher, text: str, k: int) -> QueryOutcome:
    """Run one query; whatever the engine raises becomes words."""
    try:
        answer = copied(searcher.search(text, k), k)
    except BrokenAnswer as exc:
        return QueryOutcome(text, k, None, str(exc))
    except (KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as exc:  # noqa: BLE001  an exit or a panic is a failed query too
        return QueryOutcome(text, k, None, raised(exc))
    return QueryOutcome(text, k, answer, "")


def raised(exc: BaseException) -> str:
    """Say what was raised, in a line; raise it again where a disk has no room: the engine is whole.

    Raises:
        BaseException: the same, where it comes of such a disk.
    """
    if (told := refusal(exc)) and told.errno in FULL:
        raise exc
    return one_line(f"raised {type(exc).__name__}: {exc}".removesuffix(": "), 200)


def quoted(text: str) -> str:
    """Quote a query in a message."""
    return repr(text if len(text) <= QUOTED else f"{text[:QUOTED]}…")


def shown(hits: Iterable[Hit]) -> ShownHits:
    """Reduce hits to what a comparison of two answers rests on."""
    return [(hit.doc_id, hit.score) for hit in hits]
