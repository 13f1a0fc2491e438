"""An engine behind HTTP as an arm: it holds its documents already, and its TOML file maps it."""

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from harness.core.digest import of_json
from harness.core.engine import Answer, Engine, Hit, Manifest, Searcher, surplus
from harness.core.errors import IndexNotReady
from harness.core.files import write_text
from harness.core.records import Document, Scalar
from harness_engines import contract
from harness_engines.stacks.http.connection import (
    Got,
    HttpConnections,
    MalformedAnswer,
    NoAnswer,
    ProbedIdentity,
    Request,
    Watch,
    asked,
    connected,
    watched,
    word,
)
from harness_engines.stacks.http.settings import HttpSettings, NoMatch, RequestTemplate, compiled

KEYS = 8
"""Members of an answer that a message lists."""
EXPRESSIONS = ("hits", "id", "score", "total", "incomplete", "generation")


class ServerHit(NamedTuple):
    """A hit as the server has it; ``score`` is ``None`` where none is read."""

    doc_id: str
    score: float | None


class AnswerReading(NamedTuple):
    """What was read of an answer."""

    hits: Sequence[ServerHit]
    total: int | None
    generation: object


class AnswerExpressions:
    """The expressions of an arm, compiled."""

    def __init__(self, settings: HttpSettings) -> None:
        self._written = {name: getattr(settings, name) for name in EXPRESSIONS}
        self._found = {name: compiled(text) for name, text in self._written.items() if text}
        self._sends_k = "k" in settings.places

    def _value(self, name: str, tree: Any) -> Any:  # noqa: ANN401  any JSON
        """Return what an expression finds; None where the file names none."""
        found = self._found.get(name)
        return found(tree) if found else None

    def read(self, answer: Any, k: int) -> AnswerReading:  # noqa: ANN401  any JSON
        """Read an answer to a request for ``k`` hits."""
        try:
            return self._read(answer, k)
        except NoMatch as exc:
            raise MalformedAnswer(str(exc)) from exc

    def _read(self, answer: Any, k: int) -> AnswerReading:  # noqa: ANN401  any JSON
        if why := self._value("incomplete", answer):
            raise MalformedAnswer(
                f"a partial answer: {self._written['incomplete']!r} is {why!r}."
                " Nothing of it counts"
            )
        listed = self._value("hits", answer)
        if not isinstance(listed, list):
            raise MalformedAnswer(
                f"hits: {self._written['hits']!r} of the answer, {outline(answer)}, is"
                f" {outline(listed)} and no list. Correct hits"
            )
        if not self._sends_k:
            listed = listed[:k]
        if too_many := surplus(len(listed), k):
            raise MalformedAnswer(too_many)
        found = [self._hit(at, one) for at, one in enumerate(listed, start=1)]
        total = self._value("total", answer)
        whole = isinstance(total, int) and not isinstance(total, bool) and total >= 0
        if self._written["total"] and not whole:
            raise MalformedAnswer(
                f"total: {self._written['total']!r} is {total!r}, not a number of hits"
            )
        return AnswerReading(found, total, self._value("generation", answer))

    def generation_of(self, answer: Any) -> object:  # noqa: ANN401  any JSON
        """Read the generation alone; None where the file names none."""
        try:
            return self._value("generation", answer)
        except NoMatch as exc:
            raise MalformedAnswer(str(exc)) from exc

    def _hit(self, at: int, hit: Any) -> ServerHit:  # noqa: ANN401  any JSON
        found = self._value("id", hit)
        if found == "" or isinstance(found, bool) or not isinstance(found, str | int):
            raise MalformedAnswer(
                f"hit {at}: the id is {found!r}, by {self._written['id']!r} in {outline(hit)}, and"
                " neither a text nor a whole number. Correct id"
            )
        return ServerHit(str(found), self._score(at, hit) if self._written["score"] else None)

    def _score(self, at: int, hit: Any) -> float:  # noqa: ANN401  any JSON
        value = self._value("score", hit)
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not (is_number and math.isfinite(value)):
            raise MalformedAnswer(
                f"hit {at}: the score is {value!r}, by {self._written['score']!r} in"
                f" {outline(hit)}, and no number. Write to_number(...) around the expression"
                ' where the server sends texts, or score = "" where the order alone counts'
            )
        return float(value)


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
PARAM = "params."


class NotExpressible(NoAnswer):
    """A param that the request has no place for; leaving it out would ask something else."""


@dataclass(frozen=True, slots=True)
class HttpEngine:
    """An engine that is queried over HTTP; ``settings`` describe it."""

    settings: HttpSettings

    def build(self, documents: Iterable[Document], index: Path) -> Manifest:
        """Note the documents' ids and who answers; no document is sent."""

        def fill(passing: Iterable[Document]) -> None:
            write_text(index / IDS, json.dumps(sorted(one.doc_id for one in passing)))

        with connected(self.settings) as to:
            who = asked(to)
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
        with connected(self.settings) as to:
            who = asked(to)
            contract.check_made_by(index, made, **self._made_by(who))
            known = doc_ids if self.settings.unknown_ids == "fail" else None
            with watched(to, who) as watch:
                given = self.settings
                query, body = RequestTemplate(given.query), RequestTemplate(given.tree)
                yield HttpSearcher(
                    to, made, who, watch, known, AnswerExpressions(given), query, body
                )

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
    who: ProbedIdentity
    watch: Watch
    known: frozenset[str] | None
    """Ids of the data set; None where any is taken."""
    reader: AnswerExpressions
    query: RequestTemplate
    body: RequestTemplate

    def search(self, text: str, k: int) -> Answer:
        return self.search_with(text, k, {})

    def search_with(self, text: str, k: int, params: Mapping[str, Scalar]) -> Answer:
        """Show the server's hits in the server's order."""
        found, got = self._exchange(text, k, params)
        hits = []
        for at, (doc_id, score) in enumerate(found.hits, start=1):
            if self.known is not None and doc_id not in self.known:
                raise MalformedAnswer(
                    f"hit {at}: {doc_id!r} is the id of no document of the data set."
                    ' Correct id, or set unknown_ids = "keep"'
                )
            hits.append(Hit(doc_id, 1 / at, 1 / at if score is None else score))
        moved, by = self._moved(found), self.manifest.fingerprint
        served_by = of_json([by, moved]) if moved else by
        return Answer(tuple(hits), served_by, moved, got.retries, got.limited)

    def exchange(self, text: str, k: int) -> tuple[AnswerReading, int]:
        """Send one query; give what was read of the answer, and the attempts that failed before."""
        found, got = self._exchange(text, k, {})
        return found, got.retries

    def _exchange(
        self, text: str, k: int, params: Mapping[str, Scalar]
    ) -> tuple[AnswerReading, Got]:
        """Send one query."""
        given = self.to.settings
        extra = {f"{PARAM}{name}": one for name, one in params.items() if one is not None}
        if extra and (strange := sorted(extra.keys() - given.places)):
            raise NotExpressible(
                f"query and body have no place ${{{strange[0]}}}. Add it, or leave out the param"
            )
        whole = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        values = {"text": whole, "k": k, **extra}
        body = self.body.filled(values) if given.body else None
        request = Request(given.method, given.url, self.query.filled(values), body)
        got = self.to.call(request)
        return self.reader.read(got.answer, k), got

    def _moved(self, found: AnswerReading) -> str:
        if self.to.settings.generation and word(found.generation) != self.who.generation:
            return (
                f"the answer is of generation {word(found.generation)}, the index that was"
                f" opened of {self.who.generation}"
            )
        return self.watch.moved


def engine(settings: Mapping[str, Any], _cache: Path) -> Engine:
    """Make the engine from an arm's settings; nothing is kept between runs."""
    return HttpEngine(HttpSettings.model_validate(settings))
