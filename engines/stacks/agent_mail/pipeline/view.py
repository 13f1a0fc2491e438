"""What one viewer's searches run over: visible documents alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from engines.contract.errors import FeatureUnavailable, IndexUnavailable, InvalidQuery, SearchError
from engines.stacks.agent_mail.contract.directory import Entity, Names
from engines.stacks.agent_mail.contract.lifecycle import Message
from engines.stacks.agent_mail.contract.query import DocKind
from engines.stacks.agent_mail.pipeline.kinds import Source
from engines.stacks.agent_mail.pipeline.retrievers import Tiers
from engines.stacks.agent_mail.pipeline.scope import Scope


@dataclass(frozen=True, eq=False)
class View:
    """Everything that a viewer's search may read, made of what its scope shows."""

    scope: Scope
    """The policy, with the verdicts on redacted messages as they were when the view was made."""
    tiers: Callable[[Tiers], Tiers]
    """Give the tiers of the whole, over this view; what cannot be narrowed is absent."""
    hydrate: Callable[[Sequence[int]], Mapping[int, Message]]
    projects_of: Callable[[int], frozenset[int]]
    entities: Mapping[DocKind, Source[Entity]]
    names: Names
    """Projects and products that the viewer knows."""
    documents: int
    corpus_sha256: str
    """Of the visible messages."""


class Views(Protocol):
    """Gives each scope its view."""

    def of(self, scope: Scope) -> View:
        """Give the view of ``scope`` over the messages as they are now.

        Raises:
            SearchError: it cannot be made.
        """
        ...


class _NoNames:
    """Knows no project and no product."""

    def project_called(self, slug: str) -> int | None:  # noqa: ARG002  the protocol's
        return None

    def product_called(self, name: str) -> int | None:  # noqa: ARG002  the protocol's
        return None

    def projects_of_product(self, product_id: int) -> frozenset[int]:  # noqa: ARG002  the protocol's
        return frozenset()


def nothing(scope: Scope) -> View:
    """Give the view that shows nothing, for a scope whose view cannot be made."""
    return View(
        scope,
        lambda _: Tiers({}, None, None, lambda _: {}),
        lambda _: {},
        lambda _: frozenset(),
        {},
        _NoNames(),
        0,
        "",
    )


def plain(exc: SearchError) -> str:
    """Say to a viewer what went wrong by its kind: the details may name files or hidden things."""
    match exc:
        case InvalidQuery():
            return str(exc)
        case FeatureUnavailable():
            return "not available"
        case IndexUnavailable():
            return "its index is not ready"
        case _:
            return "failed"
