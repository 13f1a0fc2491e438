"""Whether what answers has seen every change of the messages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from engines.stacks.agent_mail.budget import Deadline
from engines.stacks.agent_mail.pipeline.plan import FallbackTier
from engines.stacks.agent_mail.pipeline.view import View


class Fresh(Protocol):
    """Keeps the indexes of a service up to the messages."""

    def current(self, tier: FallbackTier, until: Deadline | None = None) -> str:
        """Bring what ``tier`` reads up to the messages as they are now.

        Gives why that cannot be done in time; empty where an answer misses no change.
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

    def seen_by(self, view: View) -> Steady:  # noqa: ARG002  the protocol's
        """Give the same."""
        return self
