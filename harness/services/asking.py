"""Both services queried, one after the other, and what each showed and how long it took."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from harness.core.digest import of_json
from harness.core.engine import Manifest
from harness.core.errors import HarnessError
from harness.core.records import Document, Query, Scalar
from harness.core.run import Row, Run, Status
from harness.replay.drive import TimedOutcome, observe
from harness.services.shape import ARMS, AnswerShape, ShapeGiven, document_of, hits_of, learn
from harness_engines.stacks.http.arm import ENGINE, AnswerExpressions, HttpSearcher
from harness_engines.stacks.http.connection import (
    Got,
    HttpConnections,
    NoAnswer,
    Request,
    Watch,
    asked,
    connected,
)
from harness_engines.stacks.http.settings import HttpSettings, RequestTemplate

DEPTH = 10
"""Hits that are requested and compared."""
LOOKED = 8
"""Queries whose answers are looked at before the comparison; they also open the connections."""
IN_A_ROW = 20
"""Queries that may fail one after the other before the rest is given up."""
REPEATED = 50
"""Queries that the control gets a second time."""
NS = 1_000_000_000


class Listening(HttpConnections):
    """A connection that keeps its last answer, for the texts of its hits."""

    __slots__ = ("last",)

    def call(self, request: Request) -> Got:
        self.last: Any = None
        got = super().call(request)
        self.last = got.answer
        return got


class NamedService(NamedTuple):
    """A service as it was named: by its address, or by an arm's file that is ``there``."""

    file: Path
    settings: HttpSettings
    there: bool


@dataclass(frozen=True, slots=True)
class SearchService:
    """One of the two: how it is queried and read."""

    arm: str
    file: Path
    settings: HttpSettings
    shape: AnswerShape
    learned: bool
    """Whether its shape was learned, and is not from a file."""


def look(
    named: Sequence[NamedService], given: Sequence[ShapeGiven], queries: Sequence[Query]
) -> tuple[SearchService, ...]:
    """Query both services a few times, and learn the shape of their answers.

    Raises:
        HarnessError: a service does not answer, or its answers are in no shape that is known.
    """
    answers = [
        list(_looked(arm, one.settings, queries)) for arm, one in zip(ARMS, named, strict=True)
    ]
    wanted = [
        at.over(one.settings) if one.there else at for at, one in zip(given, named, strict=True)
    ]
    shapes = learn(answers, wanted)
    return tuple(
        SearchService(arm, one.file, shape.fits(one.settings), shape, not one.there)
        for arm, one, shape in zip(ARMS, named, shapes, strict=True)
    )


def _looked(arm: str, settings: HttpSettings, queries: Sequence[Query]) -> Iterator[Any]:
    """Yield the answers to the first queries; one that fails is passed over, but not all."""
    answered, problem = 0, ""
    with connected(settings) as to:
        for query in queries[:LOOKED]:
            values: dict[str, Scalar] = {"text": query.text, "k": DEPTH}
            body = RequestTemplate(settings.tree).filled(values) if settings.body else None
            sent = RequestTemplate(settings.query).filled(values)
            try:
                yield to.call(Request(settings.method, settings.url, sent, body)).answer
                answered += 1
            except (NoAnswer, TimeoutError) as exc:
                problem = problem or str(exc)
    if not answered:
        raise HarnessError(f"{arm}: no answer to the first {len(queries[:LOOKED])}: {problem}")


@dataclass(slots=True)
class Heard:
    """What one service said."""

    service: SearchService
    rows: list[TimedOutcome] = field(default_factory=list)
    """In the order of the queries."""
    failing: int = 0
    """Queries that failed, one after the other, just now."""

    def hear(self, one: TimedOutcome) -> None:
        """Take an outcome; give up a service that fails one query after the other.

        Raises:
            HarnessError: ``IN_A_ROW`` queries have failed.
        """
        self.rows.append(one)
        self.failing = 0 if one.row.status is Status.ANSWERED else self.failing + 1
        if self.failing == IN_A_ROW:
            raise HarnessError(
                f"{self.service.arm}: {IN_A_ROW} queries in a row failed, the last with"
                f" {one.row.error}. Nothing is compared"
            )

    def run(self) -> Run:
        """Return its rankings."""
        return Run.of(self.service.arm, (one.row for one in self.rows))

    def elapsed_ns(self) -> NDArray[np.int64]:
        """Return the time of each query, shape (queries,)."""
        return np.array([one.elapsed_ns for one in self.rows], dtype=np.int64)


@dataclass(frozen=True, slots=True)
class PairedAnswers:
    """What both services said of the same queries."""

    queries: tuple[Query, ...]
    heard: tuple[Heard, Heard]
    again: Run
    """The control's answers to some of the queries, a second time."""
    documents: Mapping[str, Document]
    """Every document that a service showed, with the texts of its hit."""
    manifests: Mapping[str, Manifest]
    """By arm."""


def ask(
    services: Sequence[SearchService],
    queries: Sequence[Query],
    *,
    seed: int,
    advance: Callable[[int], object],
) -> PairedAnswers:
    """Send every query to both services, in a drawn order of the two, one at a time.

    Raises:
        HarnessError: a service fails ``IN_A_ROW`` queries, or answers none.
    """
    documents: dict[str, Document] = {}
    rng = Random(seed)
    with ExitStack() as opened:
        open_ = [opened.enter_context(_opened(one)) for one in services]
        control, candidate = (Heard(one) for one in services)
        for query in queries:
            for at in rng.sample((0, 1), 2):
                heard = (control, candidate)[at]
                heard.hear(_once(heard.service, open_[at], query, documents))
            advance(1)
        chosen = rng.sample(list(queries), min(REPEATED, len(queries)))
        again: list[Row] = [_once(services[0], open_[0], one, documents).row for one in chosen]
        for heard in (control, candidate):
            if all(one.row.status is not Status.ANSWERED for one in heard.rows):
                raise HarnessError(
                    f"{heard.service.arm}: no query was answered, the first failed with"
                    f" {heard.rows[0].row.error}. Nothing is compared"
                )
        made = {one.arm: to.manifest for one, to in zip(services, open_, strict=True)}
    second = Run.of(ARMS[0], again)
    return PairedAnswers(tuple(queries), (control, candidate), second, documents, made)


def _once(
    service: SearchService, to: HttpSearcher, query: Query, documents: dict[str, Document]
) -> TimedOutcome:
    """Query a service, and keep the texts of documents that were not seen before.

    Raises:
        HarnessError: an id is one that no file of judgements can hold.
    """
    outcome = observe(to, query, DEPTH, int(service.settings.timeout_s * NS))
    heard = to.to.last if isinstance(to.to, Listening) else None
    hits = hits_of(service.shape.list, heard)
    for shown, hit in zip(outcome.row.hits, hits, strict=False):
        if len(shown.doc_id.split()) != 1:
            raise HarnessError(
                f"{service.arm}: the id {shown.doc_id!r} holds white space, as no judgement may."
                f" Name another: --map {service.arm}.id=PATH"
            )
        if shown.doc_id not in documents:
            documents[shown.doc_id] = document_of(hit, shown.doc_id, service.shape)
    return outcome


@contextmanager
def _opened(service: SearchService) -> Iterator[HttpSearcher]:
    """Connect to a service; who answers is what its probes say, or its file alone."""
    given = service.settings
    with connected(given) as to:
        who = asked(to)
        listening = Listening(to.client, to.settings, to.headers)
        manifest = Manifest(ENGINE, str(who), 0, of_json([]), of_json(given.model_dump()))
        watch, reader = Watch(given, who), AnswerExpressions(given)
        query, body = RequestTemplate(given.query), RequestTemplate(given.tree)
        yield HttpSearcher(listening, manifest, who, watch, None, reader, query, body)
