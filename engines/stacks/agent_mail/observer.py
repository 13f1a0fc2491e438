"""Who looks on when message search serves with a shadow."""

from __future__ import annotations

from typing import Protocol

from engines.stacks.agent_mail.contract.query import SearchQuery
from engines.stacks.agent_mail.contract.results import SearchResponse


class ShadowObserver(Protocol):
    """Is told of each first page of messages that is served under SEARCH_ENGINE=shadow."""

    def served(self, query: SearchQuery, search_response: SearchResponse, elapsed_ns: int) -> None:
        """Take note, and come back at once; nothing that is raised here reaches the caller.

        ``elapsed_ns`` is what the serving engine took. A query with a scope is not told: what a
        viewer may see is a function, which no one elsewhere can be given.
        """
        ...


class NotTold:
    """Stands for an observer where a viewer is served: nothing is compared, and no one waits."""

    def served(self, query: SearchQuery, search_response: SearchResponse, elapsed_ns: int) -> None:
        """Do nothing."""
