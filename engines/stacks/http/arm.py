"""An engine behind HTTP as an arm: it holds its documents already, and its TOML file maps it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from engines.contract import manifest
from engines.stacks.http.connection import Connection, Got, Request, connected
from engines.stacks.http.failures import Malformed, NoAnswer
from engines.stacks.http.identity import Identity, Watch, asked, watched, word
from engines.stacks.http.reading import Reader, Reading, reader
from engines.stacks.http.settings import Settings
from engines.stacks.http.template import Template
from harness.core.digest import of_json
from harness.core.engine import Answer, Engine, Hit, Manifest, Searcher
from harness.core.errors import IndexNotReady
from harness.core.files import write_text
from harness.core.formats import MAX_INDEX_BYTES, json_file
from harness.core.records import Document, Scalar

ENGINE, IDS = "http", "ids.json"
PARAM = "params."


class NotExpressible(NoAnswer):
    """A param that the request has no place for; leaving it out would ask something else."""


@dataclass(frozen=True, slots=True)
class HttpEngine:
    """An engine that is queried over HTTP; ``settings`` describe it."""

    settings: Settings

    def build(self, documents: Iterable[Document], index: Path) -> Manifest:
        """Note the documents' ids and who answers; no document is sent.

        Raises:
            IndexNotReady: no one says who answers, or another number of documents is served.
        """

        def fill(passing: Iterable[Document]) -> None:
            write_text(index / IDS, json.dumps(sorted(one.doc_id for one in passing)))

        with connected(self.settings) as to:
            who = asked(to)
        made = manifest.record(index, documents, fill, **self._made_by(who))
        served = who.documents
        if self.settings.unknown_ids == "fail" and served not in {None, made.documents}:
            raise IndexNotReady(
                f"{self.settings.url}: serves {served} documents, the data set has"
                f' {made.documents}. Index the same documents there, or set unknown_ids = "keep"'
            )
        return made

    @contextmanager
    def open(self, index: Path) -> Iterator[Searcher]:
        """Connect to the server that was there when the index was made, and watch it.

        Raises:
            IndexNotReady: no one says who answers, or it is another one.
            InvalidArm: at the end, another index answered meanwhile.
        """
        made = manifest.read(index)
        doc_ids = _doc_ids(index)
        manifest.check_count(index, made, len(doc_ids))
        with connected(self.settings) as to:
            who = asked(to)
            manifest.check_made_by(index, made, **self._made_by(who))
            known = doc_ids if self.settings.unknown_ids == "fail" else None
            with watched(to, who) as watch:
                yield HttpSearcher(to, made, who, watch, known)

    def of_any_documents(self) -> HttpEngine:
        """Give the same engine, which takes whatever ids the server has."""
        return replace(self, settings=self.settings.model_copy(update={"unknown_ids": "keep"}))

    def _made_by(self, who: Identity) -> dict[str, Any]:
        return {"engine": ENGINE, "version": str(who), "settings": self.settings.model_dump()}


@dataclass(frozen=True, slots=True)
class HttpSearcher:
    """An open connection that answers queries."""

    to: Connection
    manifest: Manifest
    who: Identity
    watch: Watch
    known: frozenset[str] | None
    """Ids of the data set; None where any is taken."""
    reader: Reader = field(init=False)
    query: Template = field(init=False)
    body: Template = field(init=False)
    takes: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        given = self.to.settings
        for name, value in (
            ("reader", reader(given)),
            ("query", Template(given.query)),
            ("body", Template(given.tree)),
            ("takes", given.places),
        ):
            object.__setattr__(self, name, value)

    def search(self, text: str, k: int) -> Answer:
        return self.search_with(text, k, {})

    def search_with(self, text: str, k: int, params: Mapping[str, Scalar]) -> Answer:
        """Show the server's hits in the server's order.

        Raises:
            NotExpressible: the request has no place for a param.
            NoAnswer, Malformed, TimeoutError: the query failed.
        """
        found, got = self._exchange(text, k, params)
        if self.known is not None:
            for at, hit in enumerate(found.hits, start=1):
                if hit.doc_id not in self.known:
                    raise Malformed(
                        f"hit {at}: {hit.doc_id!r} is the id of no document of the data set."
                        ' Correct id, or set unknown_ids = "keep"'
                    )
        hits = tuple(
            Hit(hit.doc_id, 1 / at, 1 / at if hit.score is None else hit.score)
            for at, hit in enumerate(found.hits, start=1)
        )
        moved = self._moved(found)
        served_by = of_json([self.manifest.fingerprint, moved]) if moved else None
        return Answer(hits, served_by or self.manifest.fingerprint, moved, got.retries, got.limited)

    def exchange(self, text: str, k: int) -> tuple[Reading, int]:
        """Send one query; give what was read of the answer, and the attempts that failed before."""
        found, got = self._exchange(text, k, {})
        return found, got.retries

    def _exchange(self, text: str, k: int, params: Mapping[str, Scalar]) -> tuple[Reading, Got]:
        """Send one query.

        Half a surrogate pair, which no request can carry, is sent as U+FFFD.
        """
        given = self.to.settings
        extra = {f"{PARAM}{name}": one for name, one in params.items() if one is not None}
        if strange := sorted(extra.keys() - self.takes):
            raise NotExpressible(
                f"query and body have no place ${{{strange[0]}}}. Add it, or leave out the param"
            )
        values = {"text": _whole(text), "k": k, **extra}
        body = self.body.filled(values) if given.body else None
        request = Request(given.method, given.url, self.query.filled(values), body)
        got = self.to.call(request)
        return self.reader.read(got.answer, k), got

    def _moved(self, found: Reading) -> str:
        if self.to.settings.generation and word(found.generation) != self.who.generation:
            return (
                f"the answer is of generation {word(found.generation)}, the index that was"
                f" opened of {self.who.generation}"
            )
        return self.watch.moved


def _whole(text: str) -> str:
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _doc_ids(index: Path) -> frozenset[str]:
    try:
        return frozenset(json_file(index / IDS, most=MAX_INDEX_BYTES))
    except (OSError, ValueError, TypeError) as exc:
        raise IndexNotReady(f"{index / IDS}: {exc}. Build it again: harness index") from exc


def engine(settings: Mapping[str, Any], _cache: Path) -> Engine:
    """Make the engine from an arm's settings; nothing is kept between runs."""
    return HttpEngine(Settings.model_validate(settings))
