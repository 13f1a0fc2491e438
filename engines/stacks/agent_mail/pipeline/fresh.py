"""Whether what answers has seen every change of the messages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from engines.stacks.agent_mail.budget import Deadline
from engines.stacks.agent_mail.pipeline.plan import FallbackTier
from engines.stacks.agent_mail.pipeline.view import View


@dataclass(frozen=True, slots=True)
class Reached:
    """How far the messages and the indexes beside them are, in changes."""

    messages: int
    by_index: Mapping[str, int | None]
    """None where an index does not know what it holds."""

    def indexed(self) -> Mapping[str, int]:
        """Give the changes that each index holds, where it knows."""
        return {name: at for name, at in self.by_index.items() if at is not None}

    def lag(self) -> Mapping[str, int]:
        """Give the changes that each index lacks, where it knows what it holds."""
        return {name: max(0, self.messages - at) for name, at in self.indexed().items()}


class Fresh(Protocol):
    """Keeps the indexes of a service up to the messages."""

    def current(self, tier: FallbackTier, until: Deadline | None = None) -> str:
        """Bring what ``tier`` reads up to the messages as they are now.

        Gives why that cannot be done in time; empty where an answer misses no change.
        """
        ...

    def reached(self) -> Reached | None:
        """Say how far messages and indexes are; None where messages do not change.

        Raises:
            SearchError: it cannot be read.
        """
        ...

    def seen_by(self, view: View) -> Fresh:
        """Give the same for a viewer, who must not learn of changes to what is hidden."""
        ...


@dataclass(frozen=True, slots=True)
class Steady:
    """Messages that nothing changes while they are served."""

    def current(self, tier: FallbackTier, until: Deadline | None = None) -> str:  # noqa: ARG002  the protocol's
        """Say that no change is missed."""
        return ""

    def reached(self) -> None:
        """Say that nothing changes."""

    def seen_by(self, view: View) -> Steady:  # noqa: ARG002  the protocol's
        """Give the same."""
        return self
