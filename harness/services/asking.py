"""The shape of answers, learned from some; both services queried, what each showed, and when."""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlsplit

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from harness.core.digest import of_json
from harness.core.engine import Manifest
from harness.core.errors import HarnessError
from harness.core.records import Document, Query
from harness.core.run import Row, Run, Status
from harness.replay.drive import TimedOutcome, observe
from harness_engines import registry
from harness_engines.stacks.http import connection
from harness_engines.stacks.http.arm import ENGINE, HttpEngine, HttpMapping, HttpSearcher, outline
from harness_engines.stacks.http.connection import Got, HttpConnections, Request, Watch
from harness_engines.stacks.http.settings import HttpSettings, MalformedAnswer, NoAnswer, compiled

PLACES = {"{query}": "${text}", "{k}": "${k}"}
"""What an address may hold as a whole parameter, and what the arm's file has for it."""
ARMS = ("control", "candidate")
KEYS = ("list", "id", "score")
LISTS = (
    "hits", "results", "docs", "documents", "items", "products", "matches", "records", "data",
)  # fmt: skip
IDS = (
    "id", "docid", "documentid", "objectid", "productid", "itemid", "uid", "uuid", "key", "sku",
    "slug", "url", "link",
)  # fmt: skip
SCORES = ("score", "relevance", "rankingscore", "textmatch", "similarity")
TITLES = ("title", "name", "headline", "subject", "heading", "label", "productname")
"""Names in the order in which they are preferred; case, ``_`` and other signs do not count."""
NEXT = re.compile(rf",(?=\s*(?:\w+\.)?(?:{'|'.join(KEYS)})\s*=)")
"""Between two expressions of ``--map``; these may hold commas themselves."""
DEEPEST = 6
"""Members within members in which a list of hits is looked for."""
WITHIN = 3
MOSTLY = 0.8
"""Share of the hits of a list that ids tell apart; a service may show a document twice."""
PLAIN = re.compile(r"[A-Za-z_]\w*")
SIGNS = re.compile(r"[\W_]+")
Fits = Callable[[Sequence[Any]], bool]
Path_ = tuple[str, ...]


class AnswerShape(NamedTuple):
    """JMESPath expressions of an answer; in ``--map`` those that are empty are learned."""

    list: str = ""
    id: str = ""
    score: str = ""


def given_shape(text: str, arm: str) -> AnswerShape:
    """Read ``KEY=PATH,...``; ``control.KEY`` and ``candidate.KEY`` are of one service."""
    found: dict[str, str] = {}
    for part in filter(None, NEXT.split(text)):
        name, equals, path = part.partition("=")
        of, dot, key = name.strip().rpartition(".")
        if not equals or not path or key not in KEYS or (dot and of not in ARMS):
            raise HarnessError(
                f"--map {part!r} is not KEY=PATH. Keys: {', '.join(KEYS)}; candidate.id=PATH"
                " is for one service"
            )
        try:
            compiled(path)
        except ValueError as exc:
            raise HarnessError(f"--map {key}: {exc}. Correct the path") from exc
        if of in {"", arm}:
            found[key] = path
    return AnswerShape(**found)


@dataclass(frozen=True, slots=True)
class SearchService:
    """One of the two: how it is queried and read."""

    arm: str
    file: Path
    settings: HttpSettings
    learned: bool
    """Whether it was named by its address, so that its shape is learned; not by an arm's file."""

    @classmethod
    def of(cls, address: str, arm: str, control: str, out: Path, cache: Path) -> "SearchService":
        """Read an address, or an arm's file that already exists."""
        if not address.endswith(".toml"):
            return cls(arm, out / f"{arm}.toml", settings_of(address, control), learned=True)
        file = Path(address)
        engine = registry.load(address, cache).engine
        if not isinstance(engine, HttpEngine):
            raise HarnessError(f'{file}: its stack is not "http". Name an address, or such a file')
        settings = engine.settings.model_copy(update={"unknown_ids": "keep"})
        return cls(arm, file, settings, learned=False)

    @property
    def shape(self) -> AnswerShape:
        """How its answers are read."""
        return AnswerShape(self.settings.hits, self.settings.id, self.settings.score)

    @property
    def taken(self) -> str:
        """What was taken for what, and what the service does not take."""
        score = "no score, so the order alone counts"
        if self.shape.score:
            score = f"score {self.shape.score}"
        few = "; no {k} in its address, so it sets the number of hits"
        few = "" if "k" in self.settings.places else few
        return f"hits {self.shape.list}, id {self.shape.id}, {score}{few}"


def settings_of(address: str, like: str = "") -> HttpSettings:
    """Read an address with ``{query}``, perhaps ``{k}``; or one with the parameters of ``like``."""
    parts, other = urlsplit(address), urlsplit(like)
    pairs = parse_qsl(parts.query, keep_blank_values=True)
    if "{query}" not in {value for _, value in pairs}:
        pairs += parse_qsl(other.query, keep_blank_values=True)
    query: dict[str, Any] = {}
    for name, value in pairs:
        inside = next((one for one in PLACES if one in value and one != value), "")
        if inside:
            raise HarnessError(
                f"{address}: {name} holds more than {inside}. Write an arm's TOML file and name it"
            )
        given: Any = PLACES.get(value, value)
        if name in query:
            known = query[name]
            given = [*(known if isinstance(known, list) else [known]), given]
        query[name] = given
    if "${text}" not in query.values():
        raise HarnessError(
            f"{address}: no parameter is {{query}}. Write it as http://HOST/search?q={{query}}"
        )
    try:
        url = parts._replace(query="", fragment="").geturl()
        return HttpSettings(
            url=url, method="GET", query=query, hits="@", id="id", unknown_ids="keep"
        )
    except ValidationError as exc:
        said = exc.errors()[0]["msg"].removeprefix("Value error, ")
        raise HarnessError(f"{address}: {said}") from exc


def learn(
    answers: Sequence[Sequence[Any]], given: Sequence[AnswerShape]
) -> tuple[AnswerShape, ...]:
    """Learn the shape of each service's answers; ids are those by which both share documents."""
    found = [_learned(*one) for one in zip(ARMS, answers, given, strict=True)]
    pairs = [(one, other) for one in found[0] for other in found[1]]
    shown = {
        shape: {doc_id for answer in of for doc_id in _ids(shape, answer)}
        for shapes, of in zip(found, answers, strict=True)
        for shape in shapes
    }
    alike = [len(shown[one] & shown[other]) for one, other in pairs]
    return pairs[0 if alike[0] else int(np.argmax(alike))]


def _ids(shape: AnswerShape, answer: Any) -> Iterator[str]:  # noqa: ANN401  any JSON
    read = compiled(shape.id)
    for hit in hits_of(shape.list, answer):
        yield str(read(hit))


def hits_of(path: str, answer: Any) -> list[Any]:  # noqa: ANN401  any JSON
    """Return the hits of an answer; none where the path leads to no list."""
    try:
        found = compiled(path)(answer)
    except MalformedAnswer:
        return []
    return found if isinstance(found, list) else []


def _learned(arm: str, answers: Sequence[Any], given: AnswerShape) -> list[AnswerShape]:
    """List the shapes that an arm's answers may have, the most likely first."""
    paths = [given.list] if given.list else _lists(answers)
    for path in paths:
        lists = [found for answer in answers if (found := hits_of(path, answer))]
        ids = [given.id] if given.id else _members(lists, IDS, _is_id, ending=True)
        if lists and ids:
            hits = [[*found] for found in lists]
            scores = [given.score] if given.score else _members(hits, SCORES, _is_score)
            return [AnswerShape(path, one, scores[0] if scores else "") for one in ids]
    seen = outline(answers[0]) if answers else "no answer"
    why = "no hit in any" if any(map(_lists, ([a] for a in answers))) else "no list of hits in"
    raise HarnessError(
        f"{arm}: {why} of {len(answers)} answers, the first {seen}. Name the members:"
        f" --map {arm}.list=PATH,{arm}.id=PATH"
    )


def _lists(answers: Sequence[Any]) -> list[str]:
    """Return the paths of lists that may be hits: those with a known name, then the longest."""
    found: dict[Path_, int] = {}
    for answer in answers:
        for path, one in _walk(answer, (), DEEPEST):
            if isinstance(one, list) and all(isinstance(hit, dict | str | int) for hit in one):
                found[path] = found.get(path, 0) + len(one)

    def likely(path: Path_) -> tuple[bool, int, int, int]:
        name = _rank(path[-1], LISTS) if path else 0
        return not found[path], len(LISTS) if name is None else name, len(path), -found[path]

    return [_jmespath(path) for path in sorted(found, key=likely)]


def _walk(tree: Any, at: Path_, deep: int) -> Iterator[tuple[Path_, Any]]:  # noqa: ANN401  any JSON
    yield at, tree
    if isinstance(tree, dict) and deep:
        for name, inside in tree.items():
            yield from _walk(inside, (*at, str(name)), deep - 1)


def _members(
    lists: Sequence[Sequence[Any]], names: Sequence[str], fits: Fits, *, ending: bool = False
) -> list[str]:
    """Return the paths within a hit whose values fit in all lists, the outermost first."""
    if not lists or not all(isinstance(hit, dict) for found in lists for hit in found):
        return ["@"] if lists and names is IDS and all(map(_is_id, lists)) else []
    first = lists[0][0]
    paths = [path for path, _ in _walk(first, (), WITHIN) if path]
    ranked = [
        (len(path), rank, path)
        for path in paths
        if (rank := _rank(path[-1], names, ending=ending)) is not None
        and all(fits([_at(hit, path) for hit in found]) for found in lists)
    ]
    return [_jmespath(path) for _, _, path in sorted(ranked)]


def _rank(name: str, names: Sequence[str], *, ending: bool = False) -> int | None:
    """Return the place of a name among those that are known; None for others."""
    plain = SIGNS.sub("", name).lower()
    if plain in names:
        return names.index(plain)
    return len(names) if ending and plain.endswith(("id", "key", "sku", "url", "uri")) else None


def _at(hit: Any, path: Path_) -> Any:  # noqa: ANN401  any JSON
    for name in path:
        hit = hit.get(name) if isinstance(hit, dict) else None
    return hit


def _is_id(values: Sequence[Any]) -> bool:
    """Return whether each hit of a list has an id of its own."""
    whole = all(isinstance(one, str | int) and not isinstance(one, bool) for one in values)
    texts = [*map(str, values)]
    single = all(len(text.split()) == 1 for text in texts)
    return whole and single and len({*texts}) > MOSTLY * len(texts)


def _is_score(values: Sequence[Any]) -> bool:
    return all(isinstance(one, int | float) and not isinstance(one, bool) for one in values)


def _jmespath(path: Path_) -> str:
    return ".".join(n if PLAIN.fullmatch(n) else json.dumps(n) for n in path) or "@"


def document_of(hit: Any, doc_id: str, shape: AnswerShape) -> Document:  # noqa: ANN401  any JSON
    """Take a hit as the document that people judge: a title, and its other texts as lines."""
    if not isinstance(hit, dict):
        return Document(doc_id, "", doc_id)
    texts: dict[str, str] = {}
    for path, value in _walk(hit, (), WITHIN):
        several = value if isinstance(value, list) else [value]
        if path and several and all(isinstance(one, str) for one in several):
            texts.setdefault(path[-1], "; ".join(several))
    ranked = [(rank, name) for name in texts if (rank := _rank(name, TITLES)) is not None]
    title = texts.pop(min(ranked)[1]) if ranked else ""
    own = {"@", shape.id.rpartition(".")[2].strip('"')}
    rest = "\n".join(f"{name}: {text}" for name, text in texts.items() if name not in own)
    return Document(doc_id, title, rest)


DEPTH = 10
LOOKED = 8
"""Queries whose answers are looked at before the comparison; they also open the connections."""
IN_A_ROW = 20
"""Queries that may fail one after the other before the rest is given up."""
REPEATED = 50
NS = 1_000_000_000


class Listening(HttpConnections):
    """A connection that keeps its last answer, for the texts of its hits."""

    __slots__ = ("last",)

    def call(self, request: Request) -> Got:
        self.last: Any = None
        got = super().call(request)
        self.last = got.answer
        return got


def look(
    services: Sequence[SearchService], given: Sequence[AnswerShape], queries: Sequence[Query]
) -> tuple[SearchService, ...]:
    """Query both services, and learn their shapes, where neither ``given`` nor a file has one."""
    answers: list[list[Any]] = []
    first = queries[:LOOKED]
    for service in services:
        answered, problem, mapping = [], "", HttpMapping(service.settings)
        with connection.connected(service.settings) as to:
            for query in first:
                try:
                    answered.append(to.call(mapping.request(query.text, DEPTH)).answer)
                except (NoAnswer, TimeoutError) as exc:
                    problem = problem or str(exc)
        if not answered:
            raise HarnessError(f"{service.arm}: no answer to the first {len(first)}: {problem}")
        answers.append(answered)
    wanted = [
        at
        if one.learned
        else AnswerShape(*(said or known for said, known in zip(at, one.shape, strict=True)))
        for at, one in zip(given, services, strict=True)
    ]
    shapes = learn(answers, wanted)
    found = []
    for one, shape in zip(services, shapes, strict=True):
        read = {"hits": shape.list, "id": shape.id, "score": shape.score}
        found.append(replace(one, settings=one.settings.model_copy(update=read)))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class PairedAnswers:
    """What both services said of the same queries; pairs are of control and candidate."""

    queries: tuple[Query, ...]
    runs: tuple[Run, Run]
    elapsed_ns: tuple[NDArray[np.int64], NDArray[np.int64]]
    """Shape (queries,) each."""
    again: Run
    """The control's answers to some of the queries, a second time."""
    documents: Mapping[str, Document]
    """Every document that a service showed, with the texts of its hit."""
    manifests: Mapping[str, Manifest]


def ask(
    services: Sequence[SearchService],
    queries: Sequence[Query],
    *,
    seed: int,
    advance: Callable[[int], object],
) -> PairedAnswers:
    """Send every query to both services, in a drawn order of the two, one at a time."""
    documents: dict[str, Document] = {}
    rng = Random(seed)
    heard: tuple[list[TimedOutcome], list[TimedOutcome]] = ([], [])
    with ExitStack() as opened:
        open_ = [opened.enter_context(_opened(one)) for one in services]
        for query in queries:
            for at in rng.sample((0, 1), 2):
                heard[at].append(_once(services[at], open_[at], query, documents))
                _check_answers(services[at].arm, heard[at][-IN_A_ROW:], IN_A_ROW)
            advance(1)
        chosen = rng.sample(list(queries), min(REPEATED, len(queries)))
        again: list[Row] = [_once(services[0], open_[0], one, documents).row for one in chosen]
        for service, outcomes in zip(services, heard, strict=True):
            _check_answers(service.arm, outcomes, len(queries))
        made = {one.arm: to.manifest for one, to in zip(services, open_, strict=True)}
    control, candidate = (
        Run.of(arm, (one.row for one in of)) for arm, of in zip(ARMS, heard, strict=True)
    )
    times = tuple(np.array([one.elapsed_ns for one in of], dtype=np.int64) for of in heard)
    return PairedAnswers(
        queries=tuple(queries),
        runs=(control, candidate),
        elapsed_ns=(times[0], times[1]),
        again=Run.of(ARMS[0], again),
        documents=documents,
        manifests=made,
    )


def _check_answers(arm: str, outcomes: Sequence[TimedOutcome], most: int) -> None:
    """Refuse a service that failed ``most`` queries in a row."""
    if len(outcomes) == most and all(o.row.status is not Status.ANSWERED for o in outcomes):
        raise HarnessError(
            f"{arm}: {most} queries in a row failed, the last with {outcomes[-1].row.error}."
            " Nothing is compared"
        )


def _once(
    service: SearchService, to: HttpSearcher, query: Query, documents: dict[str, Document]
) -> TimedOutcome:
    """Query a service, and keep the texts of documents that were not seen before."""
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
    with connection.connected(given) as to:
        who = connection.asked(to)
        listening = Listening(to.client, to.settings, to.headers)
        manifest = Manifest(ENGINE, str(who), 0, of_json([]), of_json(given.model_dump()))
        yield HttpSearcher(listening, manifest, Watch(who), None, HttpMapping(given))
