"""A viewer's own copy of what it may see, so that nothing hidden can touch its answers.

Post-filtering is not enough: the scores of words count all messages of an index, so an order, a
threshold or a count tells what hidden text contains. Here a viewer's searches run over a store and
indexes that hold visible messages alone. Of a redacted message they hold what a hit shows of it:
neither its text nor its recipients can be searched.
"""

import hashlib
import json
import weakref
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import astuple, dataclass, replace
from pathlib import Path
from threading import Lock
from types import SimpleNamespace
from typing import cast

import numpy as np
from numpy.typing import NDArray

from harness.core.files import scratch
from harness_engines.contract import FeatureUnavailable, IndexUnavailable, InvalidQuery, SearchError
from harness_engines.stacks.agent_mail import contract, faults
from harness_engines.stacks.agent_mail.contract import Agent, DocKind, Entity, Message
from harness_engines.stacks.agent_mail.pipeline.pages import PageSource, Semantic, Tiers
from harness_engines.stacks.agent_mail.pipeline.plan import FallbackTier
from harness_engines.stacks.agent_mail.pipeline.scope import Scope, Visibility
from harness_engines.stacks.agent_mail.sqlite import store as stores
from harness_engines.stacks.agent_mail.sqlite.search import matching_ids
from harness_engines.stacks.agent_mail.sqlite.store import MessageStore


@dataclass(frozen=True, eq=False)
class View:
    """Everything that a viewer's search may read, made of what its scope shows."""

    scope: Scope
    """The policy, with the verdicts on redacted messages as they were when the view was made."""
    tiers: Callable[[Tiers], Tiers]
    """Return the tiers of the whole, over this view; what cannot be narrowed is absent."""
    hydrate: Callable[[Sequence[int]], Mapping[int, Message]]
    entities: Mapping[DocKind, PageSource[Entity]]
    names: contract.Names
    """Projects and products that the viewer knows."""
    documents: int
    corpus_sha256: str
    """Of the visible messages."""


def nothing(scope: Scope) -> View:
    """Return the view that shows nothing, for a scope whose view cannot be made."""
    unnamed = SimpleNamespace(
        project_called=lambda _: None,
        product_called=lambda _: None,
        projects_of_product=lambda _: frozenset(),
    )
    empty = Tiers({}, None, None, lambda _: {})
    return View(scope, lambda _: empty, lambda _: {}, {}, cast("contract.Names", unnamed), 0, "")


def plain(exc: SearchError) -> str:
    """Describe to a viewer what kind of thing went wrong: details may name hidden things."""
    if isinstance(exc, InvalidQuery):
        return str(exc)
    kinds = {FeatureUnavailable: "not available", IndexUnavailable: "its index is not ready"}
    return kinds.get(type(exc), "failed")


BATCH = 500
"""Messages read at once while a view is filled."""
Lexical = Callable[[MessageStore, Path], Mapping[FallbackTier, contract.MailEngine]]
"""Makes the engines over a store; the folder is theirs."""


class StoredViews:
    """Makes the view of a scope at its first search, and anew when the messages have changed.

    A view is a message store with its own indexes in a temporary folder that only this user can
    read. It is removed when the view is no longer kept and at the end of the process; what a killed
    process left, the next one removes.
    """

    def __init__(
        self,
        source: MessageStore,
        lexical: Lexical,
        entities: Callable[[MessageStore], Mapping[DocKind, PageSource[Entity]]],
    ) -> None:
        self._source, self._lexical, self._entities = source, lexical, entities
        self._lock = Lock()
        self._made: dict[Scope, tuple[tuple[int, int], View]] = {}
        self._making: dict[Scope, Lock] = {}

    def of(self, scope: Scope) -> View:
        """Return the view of ``scope``; only searches of the same scope wait for it to be made."""
        with self._lock:
            own = self._making.setdefault(scope, Lock())
        with own:
            with faults.known():
                moved = self._source.moved()
            with self._lock:
                known = self._made.pop(scope, None)
            if known is None or known[0] != moved:
                known = moved, self._view(scope)
            with self._lock:
                self._made[scope] = known
                for old in [*self._made][:-32]:  # longest unused
                    del self._made[old]
                    self._making.pop(old, None)
            return known[1]

    def _view(self, scope: Scope) -> View:
        ids = [row[0] for row in self._source.read("SELECT id FROM messages ORDER BY id")]
        shown: list[Message] = []
        hidden: set[int] = set()
        for start in range(0, len(ids), BATCH):
            for message in self._source.hydrate(ids[start : start + BATCH]).values():
                seen_as = scope.sees(message)
                if seen_as is Visibility.REDACT:
                    hidden.add(message.message_id)
                    shown.append(replace(message, subject="", body="", recipients=()))
                elif seen_as is Visibility.ALLOW:
                    shown.append(message)
        redacted = frozenset(hidden)
        with ExitStack() as until_made:
            folder = until_made.enter_context(scratch())
            with stores.create(folder / "messages.db") as empty:
                copied(self._source, empty, shown, redacted, scope.knows)
                empty.insert_all((message, {}) for message in shown)
            filled = until_made.enter_context(stores.opened(folder / "messages.db"))

            def verdict(message: Message) -> Visibility:
                is_hidden = message.message_id in redacted
                return Visibility.REDACT if is_hidden else scope.sees(message)

            digest = hashlib.sha256()
            for message in shown:
                digest.update(json.dumps(astuple(message)).encode())
            made = View(
                replace(scope, verdict=verdict),
                _narrowed(filled, self._lexical(filled, folder), redacted),
                stores.Remembered(filled).hydrate,
                self._entities(filled),
                filled,
                len(shown),
                digest.hexdigest(),
            )
            weakref.finalize(made, until_made.pop_all().close)
        return made


_KEEP = (
    "INSERT INTO agents (id, project_id, name, program, model, task_description, identifiers,"
    " subject_form, body_form) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
)


def copied(
    whole: MessageStore,
    part: MessageStore,
    shown: Sequence[Message],
    redacted: Collection[int],
    knows: Callable[[Entity], bool],
) -> None:
    """Write to ``part`` the agents and projects that its viewer knows, and products of these."""
    named = {(m.project_id, name) for m in shown for name in (m.sender_name, *m.recipients)}
    agents = [
        agent if knows(agent) else Agent(agent.agent_id, agent.project_id, agent.name)
        for agent in whole.agents().values()
        if knows(agent) or (agent.project_id, agent.name) in named
    ]
    within = {m.project_id for m in shown} | {agent.project_id for agent in agents}
    own = {m.project_id for m in shown if m.message_id not in redacted}
    for project in whole.projects().values():
        if knows(project):
            own.add(project.project_id)
            within.add(project.project_id)
            told = project.name, project.description
        elif project.project_id in within:
            told = "", ""
        else:
            continue
        part.add_project(project.project_id, project.slug, *told)
    for product_id, name in whole.read("SELECT id, name FROM products ORDER BY id"):
        linked = whole.projects_of_product(product_id)
        if linked & own:
            part.add_product(product_id, name, sorted(linked & within))
    with part.writing() as db:
        for agent in agents:
            _, _, *texts = astuple(agent)
            db.execute(_KEEP, (agent.agent_id, agent.project_id, *texts, *stores.spelled(*texts)))


def _narrowed(
    filled: MessageStore,
    lexical: Mapping[FallbackTier, contract.MailEngine],
    redacted: frozenset[int],
) -> Callable[[Tiers], Tiers]:
    """Replace the engines of the whole by those of a view."""
    unreadable, parts = np.array(sorted(redacted), dtype=np.int64), faults.ServiceParts()

    def readable(filters: contract.Filters) -> NDArray[np.int64]:
        found = matching_ids(filled, filters)
        return found[~np.isin(found, unreadable)]

    def tiers(whole: Tiers) -> Tiers:
        there = {tier: lexical[tier] for tier in whole.lexical if tier in lexical}
        nearest = whole.semantic
        if isinstance(nearest, Semantic):
            nearest = replace(nearest, matching=readable, every=False)
        elif not isinstance(nearest, SearchError):
            nearest = None
        return Tiers(there, nearest, whole.reranker, filled.sent, parts)

    return tiers
