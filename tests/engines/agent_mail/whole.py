"""The service over real engines, over ones simple enough to be believed, and behind its tools."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cached_property, partial
from pathlib import Path
from random import Random
from typing import Any, cast
from unittest.mock import patch

import anyio
import numpy as np
from jsonschema import Draft202012Validator
from mcp import Client
from mcp.server.lowlevel import Server
from mcp.types import CallToolResult

from harness.core.engine import Manifest
from harness.core.records import Document
from harness_engines.rerank import Reranked, Reranker
from harness_engines.stacks.agent_mail import contract
from harness_engines.stacks.agent_mail.contract import MailEngine, Message, SearchMode, SearchQuery
from harness_engines.stacks.agent_mail.contract import Names as Called
from harness_engines.stacks.agent_mail.ingest import Ingest
from harness_engines.stacks.agent_mail.mcp_tools.server import Surface, application
from harness_engines.stacks.agent_mail.pipeline.pages import Semantic, Tiers, entities
from harness_engines.stacks.agent_mail.pipeline.plan import FallbackTier, KillSwitch
from harness_engines.stacks.agent_mail.pipeline.scope import Scope, Visibility, viewer
from harness_engines.stacks.agent_mail.service import MailSearch
from harness_engines.stacks.agent_mail.sqlite.search import Fts5Engine, LikeEngine, matching_ids
from harness_engines.stacks.agent_mail.sqlite.store import MessageStore, opened
from harness_engines.stacks.agent_mail.tantivy.engine import TantivyMailEngine
from harness_engines.stacks.agent_mail.views import StoredViews
from harness_engines.vector import amvi
from harness_engines.vector.embedder import HashEmbedder
from tests.make import mail_messages
from tests.make.mail_changing import Directory
from tests.make.mail_messages import AGENTS, PROJECTS, one, passes, some_mail, some_message, stored


def message(message_id: int, subject: str, *, project: int = 1, sender: str = "Ann") -> Message:
    about = {"project_id": project, "sender_name": sender, "recipients": ("Bob",)}
    sent, thread = 1_000_000 + message_id, f"t{message_id % 3}"
    return one(message_id, subject, thread_id=thread, created_ts=sent, **about)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Counting:
    """Scores a message by how often the query's words are in its subject."""

    name: str
    messages: Sequence[Message]

    def search(
        self, text: str, filters: contract.Filters, ranking: contract.RankingMode, depth: int
    ) -> contract.CandidateList:
        words = text.lower().split()
        scored = [
            (m, sum(m.subject.lower().split().count(word) for word in words)) for m in self.messages
        ]
        kept = [(m, n) for m, n in scored if (n or not words) and passes(m, filters)]
        if ranking is contract.RankingMode.RECENCY:
            kept.sort(key=lambda row: (-row[0].created_ts, row[0].message_id))
        else:
            kept.sort(key=lambda row: (-row[1], row[0].message_id))
        found = tuple((m.message_id, float(n)) for m, n in kept[:depth])
        return contract.CandidateList(
            found, len(kept) <= depth, self.name, text, sql=f"sql of {self.name}"
        )


@dataclass(frozen=True)
class Failing:
    """An engine or a reranker that raises what it is told to."""

    name: str
    error: BaseException

    def search(self, *_: object) -> contract.CandidateList:
        raise self.error

    def __call__(self, *_: object) -> Sequence[Reranked]:
        raise self.error


@dataclass
class Log:
    """Remembers events."""

    events: list[tuple[contract.Event, contract.Payload]] = field(default_factory=list)

    def emit(self, event: contract.Event, payload: contract.Payload) -> None:
        self.events.append((event, payload))

    @property
    def names(self) -> list[str]:
        return [event.value for event, _ in self.events]


def service(
    messages: Sequence[Message],
    *,
    lexical: Mapping[FallbackTier, MailEngine] | None = None,
    semantic: object = None,
    reranker: Reranker | None = None,
    switch: KillSwitch | None = None,
    log: Log | None = None,
    deleted: frozenset[int] = frozenset(),
    budget_ms: float = 0.0,
) -> MailSearch:
    """Make a service over ``messages``; ``deleted`` ones are still in the indexes."""
    known = {m.message_id: m for m in messages if m.message_id not in deleted}
    engines: Mapping[FallbackTier, MailEngine] = lexical or {
        tier: Counting(tier.value, messages)
        for tier in (FallbackTier.TANTIVY, FallbackTier.FTS5, FallbackTier.LIKE)
    }
    return MailSearch(
        tiers=Tiers(
            engines,
            cast("Semantic | None", semantic),
            reranker,
            lambda ids: {i: known[i].created_ts for i in ids if i in known},
        ),
        hydrate=lambda ids: {i: known[i] for i in ids if i in known},
        projects_of=lambda product: frozenset({product * 10, product * 10 + 1}),
        switch=switch,
        emit=(log or Log()).emit,
        budget_ms=budget_ms,
    )


LEXICAL = (FallbackTier.TANTIVY, FallbackTier.FTS5, FallbackTier.LIKE)
CHAINS = {
    SearchMode.LEXICAL: LEXICAL,
    SearchMode.SEMANTIC: (FallbackTier.SEMANTIC, *LEXICAL),
    SearchMode.HYBRID: (FallbackTier.HYBRID, *LEXICAL),
    SearchMode.HYBRID_RERANK: (FallbackTier.RERANK, FallbackTier.HYBRID, *LEXICAL),
}
"""Section 1.2, written down once more."""


EMBEDDER = HashEmbedder(64)
MAIL = some_mail(57, 250)
"""What the fixture ``post`` serves."""
WEIGHTS = contract.Weights(subject=2, identifiers=4)


def by_length(text: str, ids: Sequence[int], fused: Sequence[float]) -> Sequence[Reranked]:
    """Score each message in (0, 1): the sigmoid of its id."""
    del text, fused
    logits = [float(at % 17 - 8) for at in ids]
    return [Reranked(float(1 / (1 + np.exp(-logit))), logit) for logit in logits]


@dataclass(frozen=True)
class Whole:
    """A service, what it stands on, and what it told."""

    service: MailSearch
    store: MessageStore
    tantivy: TantivyMailEngine
    log: Log

    def under(self, switch: KillSwitch | None) -> "Whole":
        """Return the same under another value of SEARCH_ENGINE."""
        return replace(self, service=replace(self.service, switch=switch))

    def without(self, *tiers: FallbackTier) -> "Whole":
        """Return the same with some tiers taken away."""
        kept = self.service.tiers
        fewer = replace(
            kept,
            lexical={tier: engine for tier, engine in kept.lexical.items() if tier not in tiers},
            semantic=None if FallbackTier.HYBRID in tiers else kept.semantic,
            reranker=None if FallbackTier.RERANK in tiers else kept.reranker,
        )
        return replace(self, service=replace(self.service, tiers=fewer))

    def over(self, lexical: Mapping[FallbackTier, object]) -> "Whole":
        """Return the same with other engines in the place of some."""
        tiers = self.service.tiers
        engines = cast("Mapping[FallbackTier, MailEngine]", {**tiers.lexical, **lexical})
        changed = replace(tiers, lexical=engines)
        return replace(self, service=replace(self.service, tiers=changed))

    def ask(self, query: SearchQuery, scope: Scope | None = None) -> contract.SearchResponse:
        return self.service.seen_by(scope).search(query)

    def ids(self, query: SearchQuery, scope: Scope | None = None) -> list[int]:
        return [hit.message_id for hit in self.ask(query, scope).hits]


def build(folder: Path, messages: Sequence[Message]) -> None:
    """Write the store and all indexes into ``folder``."""
    with stored(folder / "mail.db", messages) as store:
        index(folder, store, messages)


def index(folder: Path, store: MessageStore, messages: Sequence[Message]) -> None:
    """Write the indexes of a store beside it."""
    _tantivy(folder, store, Log()).rebuild()
    ids = np.array([m.message_id for m in messages], dtype=np.int64)
    texts = [f"{m.subject} {m.body}" for m in messages]
    vectors = EMBEDDER.embed(texts).astype(np.float16)
    amvi.write_amvi(folder / "vectors.amvi", EMBEDDER.identity, ids, vectors)


@contextmanager
def whole(folder: Path) -> Iterator[Whole]:
    """Open what ``build`` wrote, as after a restart."""
    log = Log()
    with opened(folder / "mail.db", write=True) as store:
        tantivy = _tantivy(folder, store, log)
        vectors = amvi.AmviIndex.open(
            folder / "vectors.amvi", EMBEDDER.identity, EMBEDDER.dimension
        )
        lexical = _lexical(store, tantivy)
        semantic = Semantic(EMBEDDER, vectors.search, lambda wanted: matching_ids(store, wanted))
        of_entities = partial(entities, weights=WEIGHTS)
        service = MailSearch(
            Tiers(lexical, semantic, by_length, store.sent),
            store.hydrate,
            store.projects_of_product,
            None,
            log.emit,
            entities=of_entities(store),
            views=StoredViews(store, _rebuilt, of_entities).of,
        )
        yield Whole(service, store, tantivy, log)


def _lexical(store: MessageStore, tantivy: TantivyMailEngine) -> Mapping[FallbackTier, MailEngine]:
    return {
        FallbackTier.TANTIVY: tantivy,
        FallbackTier.FTS5: Fts5Engine(store, WEIGHTS),
        FallbackTier.LIKE: LikeEngine(store),
    }


def _rebuilt(store: MessageStore, folder: Path) -> Mapping[FallbackTier, MailEngine]:
    """Make the engines of a viewer's own store."""
    tantivy = _tantivy(folder, store, Log())
    tantivy.rebuild()
    return _lexical(store, tantivy)


def _tantivy(folder: Path, store: MessageStore, log: Log) -> TantivyMailEngine:
    return TantivyMailEngine(folder / "tantivy", store, log.emit, WEIGHTS)


EYE = viewer("AmberFox", frozenset({1}), frozenset({"TealOtter"}))
FIRST_HIDDEN, STEP = 2, 7
"""Hidden messages lie between visible ones, whose ids are 1, 8, 15 ..."""


@dataclass(frozen=True)
class World:
    """A service over visible and hidden messages."""

    mail: Whole
    manifest: Manifest

    def answer(self, query: SearchQuery, switch: KillSwitch | None = None) -> bytes:
        """Search as the viewer; give every byte of the answer but its times."""
        found = asdict(self.mail.under(switch).ask(query, EYE))
        del found["explain"]["timing"]
        return json.dumps(found, sort_keys=True).encode()


def messages(seed: int, hidden: int, visible: int = 40) -> tuple[Message, ...]:
    """Make the messages of a world: the visible ones depend on ``seed`` alone."""
    shown = _some(Random(seed), visible, 1, denied=False)
    secret = _some(Random(f"{seed} {hidden}"), hidden, FIRST_HIDDEN, denied=True)
    told = (replace(one, body=f"{one.body} merger deployment") for one in secret)
    return tuple(sorted((*shown, *told), key=lambda one: one.message_id))


def _some(rng: Random, count: int, first: int, *, denied: bool) -> list[Message]:
    made: list[Message] = []
    while len(made) < count:
        one = some_message(rng, first + STEP * len(made))
        if (EYE.sees(one) is Visibility.DENY) == denied:
            made.append(one)
    return made


@contextmanager
def world(folder: Path, seed: int, hidden: int) -> Iterator[World]:
    """Open a world in a new folder. All agents are registered, alike in every world."""
    folder.mkdir()
    mail = messages(seed, hidden)
    with stored(folder / "mail.db", ()) as store:
        for project in PROJECTS:
            for name in AGENTS:
                Directory(store).register(project, name, task_description="a secret task")
        store.insert_all((message, {}) for message in mail)
        index(folder, store, mail)
    made = Manifest("agent-mail", "1", len(mail), f"{hidden:064}", "s" * 64)
    with whole(folder) as opened:
        yield World(opened, made)


DAY_US = 86_400_000_000
MAY_1 = 1_777_593_600_000_000
"""2026-05-01T00:00:00Z."""
ROWS: tuple[tuple[str, str, dict[str, str | int | bool]], ...] = (
    ("m01", "review of the plan", {"sender": "Ann", "importance": "high", "thread_id": "t1"}),
    ("m02", "review again", {"sender": "Bob", "importance": "urgent", "thread_id": "t1"}),
    ("m03", "review br-2tnl", {"sender": "Ann", "ack_required": True, "thread_id": "t 2"}),
    ("m04", "review the token", {"sender": "Cid", "importance": "low"}),
    ("m05", "lunch", {"sender": "Ann"}),
    ("m06", "review late", {"sender": "Bob", "thread_id": "t3"}),
)
PROJECT_OF = {"m01": 1, "m02": 1, "m03": 2, "m04": 2, "m05": 3, "m06": 3}
DOCUMENTS = [
    Document(
        doc_id,
        title,
        "to all",
        {
            "recipients": "Bob,Dee" if about["sender"] != "Bob" else "Ann",
            "project_id": PROJECT_OF[doc_id],
            **({"product_id": 5} if PROJECT_OF[doc_id] < 3 else {}),
            "created_ts": MAY_1 + at * DAY_US + (DAY_US - 1 if at == 2 else 0),
            **about,
        },
    )
    for at, (doc_id, title, about) in enumerate(ROWS)
]
"""One message a day from 1 May on; the third in the last microsecond of its day."""
SETTINGS = {
    "mode": "lexical",
    "search_engine": "",
    "subject_weight": 2,
    "identifiers_weight": 4,
    "embedder": "hash",
    "max_tokens": 64,
}


@dataclass(frozen=True)
class Tools:
    """The tools of one surface, as an operator sees it or a viewer."""

    surface: Surface
    caller: Scope | None = None
    box: Ingest | None = None

    @cached_property
    def app(self) -> Server[Any]:
        return application(self.surface, self.box, self.caller)

    def call(self, tool: str, **given: object) -> CallToolResult:
        async def ask() -> CallToolResult:
            async with Client(self.app) as client:
                with patch.object(Draft202012Validator, "check_schema"):  # takes longer than a call
                    return await client.call_tool(tool, given)

        return anyio.run(ask)

    def answer(self, tool: str, **given: object) -> dict[str, Any]:
        """Call a tool that answers, and give the structured answer."""
        answer = self.call(tool, **given)
        assert not answer.is_error, answer.content
        assert isinstance(answer.structured_content, dict)
        return answer.structured_content

    def found(self, query: str = "review", **given: object) -> dict[str, Any]:
        """Search everywhere, or in the project named."""
        return self.answer("search_messages", **{"project_key": "*", "query": query, **given})

    def ids(self, query: str = "review", **given: object) -> list[int]:
        return sorted(row["id"] for row in self.found(query, **given)["result"])

    def product(self, query: str = "review", **given: object) -> dict[str, Any]:
        asked = {"product_key": "product-5", "query": query, **given}
        return self.answer("search_messages_product", **asked)

    def refusal(self, tool: str, **given: object) -> str:
        """Call a tool that refuses, and give its words."""
        answer = self.call(tool, **given)
        assert answer.is_error
        assert answer.structured_content is None
        (said,) = answer.content
        return str(getattr(said, "text", ""))

    def refused(self, tool: str = "search_messages", **given: object) -> str:
        key = "project_key" if tool == "search_messages" else "product_key"
        here = {"project_key": "*", "product_key": "product-5"}[key]
        return self.refusal(tool, **{key: here, "query": "review", **given})


class Names:
    """Projects ``p1`` to ``p3`` and the product ``all`` of the first two."""

    def project_called(self, slug: str) -> int | None:
        return {"p1": 1, "p2": 2, "p3": 3}.get(slug)

    def product_called(self, name: str) -> int | None:
        return {"all": 5}.get(name)

    def projects_of_product(self, product_id: int) -> frozenset[int]:
        return frozenset({1, 2}) if product_id == 5 else frozenset()


def over(
    service: MailSearch,
    directory: Called | None = None,
    *,
    mode: SearchMode = SearchMode.LEXICAL,
    scope: Scope | None = None,
) -> Tools:
    """Put the tools over a service."""
    made = Manifest("agent-mail", "1", len(DOCUMENTS), "c" * 64, "s" * 64)
    return Tools(Surface(service, directory or Names(), "served", made, mode), scope)


TEXT = "deployment review br-2tnl"
ALL = 1_000
WAYS = [*((mode, None) for mode in SearchMode), (SearchMode.LEXICAL, KillSwitch.FTS5)]


def question(
    text: str, filters: contract.Filters, mode: SearchMode = SearchMode.LEXICAL
) -> SearchQuery:
    """Ask with these filters; a set of projects is asked for as the product that has them."""
    given = {field.name: getattr(filters, field.name) for field in fields(filters)}
    products = {projects: product for product, projects in mail_messages.PRODUCTS.items()}
    product_id = products.get(given.pop("product_projects"))
    importance = tuple(given.pop("importance"))
    return SearchQuery(
        text, mode=mode, limit=ALL, product_id=product_id, importance=importance, **given
    )


def told(folder: str) -> str:
    """Write ids, scores and tokens of the answers to many questions, by Tantivy and by FTS5."""
    rng, found = Random(3), []
    with whole(Path(folder)) as post:
        for mode in [*SearchMode] * 20:
            text, ranking = mail_messages.some_text(rng), rng.choice([*contract.RankingMode])
            filters = mail_messages.some_filters(rng) if rng.random() < 0.5 else contract.Filters()
            limit = rng.choice((3, ALL))
            query = replace(question(text, filters, mode), ranking=ranking, limit=limit)
            found += [post.under(switch).ask(query) for switch in (None, KillSwitch.FTS5)]
    hits = [[(hit.message_id, hit.score) for hit in one.hits] for one in found]
    return json.dumps([hits, [one.next_cursor for one in found]])
