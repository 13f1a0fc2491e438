"""What one viewer's searches run over, and whether what answers has seen every change."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from engines.contract import FeatureUnavailable, IndexUnavailable, InvalidQuery, SearchError
from engines.stacks.agent_mail.budget import Deadline
from engines.stacks.agent_mail.contract import DocKind, Entity, Message, Names
from engines.stacks.agent_mail.pipeline.pages import Source
from engines.stacks.agent_mail.pipeline.plan import FallbackTier
from engines.stacks.agent_mail.pipeline.retrievers import Tiers
from engines.stacks.agent_mail.pipeline.scope import Scope


@dataclass(frozen=True, eq=False)
class View:
    """Everything that a viewer's search may read, made of what its scope shows."""

    scope: Scope
    """The policy, with the verdicts on redacted messages as they were when the view was made."""
    tiers: Callable[[Tiers], Tiers]
    """Return the tiers of the whole, over this view; what cannot be narrowed is absent."""
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
        """Return the view of ``scope`` over the messages as they are now."""
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
    """Return the view that shows nothing, for a scope whose view cannot be made."""
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
    """Describe to a viewer what kind of thing went wrong: details may name hidden things."""
    match exc:
        case InvalidQuery():
            return str(exc)
        case FeatureUnavailable():
            return "not available"
        case IndexUnavailable():
            return "its index is not ready"
        case _:
            return "failed"


@dataclass(frozen=True, slots=True)
class Reached:
    """How far the messages and the indexes beside them are, in changes."""

    messages: int
    by_index: Mapping[str, int | None]
    """None where an index does not know what it holds."""

    def indexed(self) -> Mapping[str, int]:
        """Return the changes that each index holds, where it knows."""
        return {name: at for name, at in self.by_index.items() if at is not None}

    def lag(self) -> Mapping[str, int]:
        """Return the changes that each index lacks, where it knows what it holds."""
        return {name: max(0, self.messages - at) for name, at in self.indexed().items()}


class Fresh(Protocol):
    """Keeps the indexes of a service up to the messages."""

    def current(self, tier: FallbackTier, until: Deadline | None = None) -> str:
        """Bring what ``tier`` reads up to the messages as they are now.

        Gives why that cannot be done in time; empty where an answer misses no change.
        """
        ...

    def reached(self) -> Reached | None:
        """Return how far messages and indexes are; None where messages do not change."""
        ...

    def seen_by(self, view: View) -> Fresh:
        """Return the same for a viewer, who must not learn of changes to what is hidden."""
        ...


@dataclass(frozen=True, slots=True)
class Steady:
    """Messages that nothing changes while they are served."""

    def current(self, tier: FallbackTier, until: Deadline | None = None) -> str:  # noqa: ARG002  the protocol's
        """State that no change is missed."""
        return ""

    def reached(self) -> None:
        """State that nothing changes."""

    def seen_by(self, view: View) -> Steady:  # noqa: ARG002  the protocol's
        """Return the same."""
        return self
