"""An engine behind HTTP as an arm: it holds its documents already, and its TOML file maps it."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from harness.core.digest import of_json
from harness.core.engine import Answer, Engine, Hit, Manifest, Searcher, surplus
from harness.core.errors import IndexNotReady
from harness.core.records import Document, Scalar
from harness_engines import contract
from harness_engines.stacks.http import connection, settings
from harness_engines.stacks.http.connection import HttpConnections, ProbedIdentity, Request, Watch
from harness_engines.stacks.http.settings import HttpSettings, MalformedAnswer, NoAnswer

KEYS = 8
"""Members of an answer that a message lists."""
EXPRESSIONS = ("hits", "id", "score", "incomplete", "generation")


class ServerHit(NamedTuple):
    """A hit as the server has it; ``score`` is missing where none is read."""

    doc_id: str
    score: float | None


class HttpMapping:
    """How an arm's file writes requests and reads answers; its expressions are compiled."""

    def __init__(self, given: HttpSettings) -> None:
        self.settings, self._places, self._body = given, given.places, given.tree
        texts = {name: getattr(given, name) for name in EXPRESSIONS}
        self._found = {name: settings.compiled(text) for name, text in texts.items() if text}

    def request(self, text: str, k: int, params: Mapping[str, Scalar] | None = None) -> Request:
        """Write the request for ``k`` hits; a param without a place would ask something else."""
        given = self.settings
        extra = {f"params.{name}": one for name, one in (params or {}).items() if one is not None}
        if strange := sorted(extra.keys() - self._places):
            raise NoAnswer(
                f"query and body have no place ${{{strange[0]}}}. Add it, or leave out the param"
            )
        whole = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        values = {"text": whole, "k": k, **extra}
        body = settings.fill(self._body, values) if given.body else None
        return Request(given.method, given.url, settings.fill(given.query, values), body)

    def value(self, name: str, tree: Any) -> Any:  # noqa: ANN401  any JSON
        """Return what an expression finds; None where the file names none."""
        found = self._found.get(name)
        return found(tree) if found else None

    def read(self, answer: Any, k: int) -> tuple[Sequence[ServerHit], object]:  # noqa: ANN401  any JSON
        """Read the hits of an answer to a request for ``k``, and its generation."""
        given = self.settings
        if why := self.value("incomplete", answer):
            raise MalformedAnswer(
                f"a partial answer: {given.incomplete!r} is {why!r}. Nothing of it counts"
            )
        listed = self.value("hits", answer)
        if not isinstance(listed, list):
            raise MalformedAnswer(
                f"hits: {given.hits!r} of the answer, {outline(answer)}, is"
                f" {outline(listed)} and no list. Correct hits"
            )
        if "k" not in self._places:
            listed = listed[:k]
        if too_many := surplus(len(listed), k):
            raise MalformedAnswer(too_many)
        hits = [self._hit(at, one) for at, one in enumerate(listed, start=1)]
        return hits, self.value("generation", answer)

    def _hit(self, at: int, hit: Any) -> ServerHit:  # noqa: ANN401  any JSON
        given, found, score = self.settings, self.value("id", hit), self.value("score", hit)
        if found == "" or isinstance(found, bool) or not isinstance(found, str | int):
            raise MalformedAnswer(
                f"hit {at}: the id is {found!r}, by {given.id!r} in {outline(hit)}, and"
                " neither a text nor a whole number. Correct id"
            )
        if not given.score:
            return ServerHit(str(found), None)
        is_number = isinstance(score, int | float) and not isinstance(score, bool)
        if not (is_number and math.isfinite(score)):
            raise MalformedAnswer(
                f"hit {at}: the score is {score!r}, by {given.score!r} in"
                f" {outline(hit)}, and no number. Write to_number(...) around the expression"
                ' where the server sends texts, or score = "" where the order alone counts'
            )
        return ServerHit(str(found), float(score))


def outline(value: object) -> str:
    """Describe a value by its type and its first members."""
    if isinstance(value, dict):
        names = ", ".join(map(str, list(value)[:KEYS]))
        more = ", ..." if len(value) > KEYS else ""
        return f"an object with {names}{more}" if value else "an empty object"
    if isinstance(value, list):
        return f"a list of {len(value)}"
    return f"{type(value).__name__} {value!r:.40}"


ENGINE, IDS = "http", "ids.json"


@dataclass(frozen=True, slots=True)
class HttpEngine:
    """An engine that is queried over HTTP; ``settings`` describe it."""

    settings: HttpSettings

    def build(self, documents: Iterable[Document], index: Path) -> Manifest:
        """Note the documents' ids and who answers; no document is sent."""

        def fill(passing: Iterable[Document]) -> None:
            contract.write_ids(index / IDS, sorted(one.doc_id for one in passing))

        with connection.connected(self.settings) as to:
            who = connection.asked(to)
        made = contract.record(index, documents, fill, **self._made_by(who))
        served = who.documents
        if self.settings.unknown_ids == "fail" and served not in {None, made.documents}:
            raise IndexNotReady(
                f"{self.settings.url}: serves {served} documents, the data set has"
                f' {made.documents}. Index the same documents there, or set unknown_ids = "keep"'
            )
        return made

    @contextmanager
    def open(self, index: Path) -> Iterator[Searcher]:
        """Connect to the server that was there when the index was made, and watch it."""
        made = contract.read(index)
        doc_ids = frozenset(contract.read_ids(index / IDS))
        contract.check_count(index, made, len(doc_ids))
        known = doc_ids if self.settings.unknown_ids == "fail" else None
        with connection.connected(self.settings) as to:
            who = connection.asked(to)
            contract.check_made_by(index, made, **self._made_by(who))
            with connection.watched(to, who) as watch:
                yield HttpSearcher(to, made, watch, known, HttpMapping(self.settings))

    def of_any_documents(self) -> "HttpEngine":
        """Return the same engine, which takes whatever ids the server has."""
        return replace(self, settings=self.settings.model_copy(update={"unknown_ids": "keep"}))

    def _made_by(self, who: ProbedIdentity) -> dict[str, Any]:
        return {"engine": ENGINE, "version": str(who), "settings": self.settings.model_dump()}


@dataclass(frozen=True, slots=True)
class HttpSearcher:
    """An open connection that answers queries."""

    to: HttpConnections
    manifest: Manifest
    watch: Watch
    known: frozenset[str] | None
    """Ids of the data set; None where any is taken."""
    mapping: HttpMapping

    def search(self, text: str, k: int) -> Answer:
        return self.search_with(text, k, {})

    def search_with(self, text: str, k: int, params: Mapping[str, Scalar]) -> Answer:
        """Show the server's hits in the server's order."""
        got = self.to.call(self.mapping.request(text, k, params))
        found, generation = self.mapping.read(got.answer, k)
        hits = []
        for at, (doc_id, score) in enumerate(found, start=1):
            if self.known is not None and doc_id not in self.known:
                raise MalformedAnswer(
                    f"hit {at}: {doc_id!r} is the id of no document of the data set."
                    ' Correct id, or set unknown_ids = "keep"'
                )
            hits.append(Hit(doc_id, 1 / at, 1 / at if score is None else score))
        moved, served_by = self.watch.moved, self.manifest.fingerprint
        began, now = self.watch.began.generation, connection.word(generation)
        if self.to.settings.generation and now != began:
            moved = f"the answer is of generation {now}, the index that was opened of {began}"
        if moved:
            served_by = of_json([served_by, moved])
        return Answer(tuple(hits), served_by, moved, got.retries, got.limited)


def engine(given: Mapping[str, Any], _cache: Path) -> Engine:
    """Make the engine from an arm's settings; nothing is kept between runs."""
    return HttpEngine(HttpSettings.model_validate(given))
