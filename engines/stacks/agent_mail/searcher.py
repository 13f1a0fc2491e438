"""Message search as a searcher: documents' ids for messages, and who really answered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass

from engines.contract.errors import SearchError
from engines.stacks.agent_mail import documents as taken
from engines.stacks.agent_mail.contract.query import SearchMode
from engines.stacks.agent_mail.contract.results import SearchResponse
from engines.stacks.agent_mail.service import MailSearch
from engines.stacks.agent_mail.sqlite import journal
from engines.stacks.agent_mail.sqlite.store import MessageStore
from harness.core.digest import of_json
from harness.core.engine import Answer, Explained, Hit, Manifest, Stage
from harness.core.records import Scalar

PARTS = (SearchMode.LEXICAL, SearchMode.SEMANTIC, SearchMode.HYBRID, SearchMode.HYBRID_RERANK)
MADE_OF = {
    SearchMode.LEXICAL: PARTS[:1],
    SearchMode.SEMANTIC: PARTS[1:2],
    SearchMode.HYBRID: PARTS[:3],
    SearchMode.HYBRID_RERANK: PARTS,
}
"""Modes whose answers lead to that of a mode, itself the last."""
NAMES = dict(zip(PARTS, ("lexical", "semantic", "fused", "reranked"), strict=True))


@dataclass(frozen=True, slots=True)
class MailSearcher:
    """The service, open over one index and asked in one mode."""

    service: MailSearch
    doc_ids: tuple[str, ...]
    """Document of each message, by message id less one."""
    manifest: Manifest
    mode: SearchMode
    watched: MessageStore
    """The message table, by connections of its own."""

    @property
    def generation(self) -> int | str | None:
        """How often the messages have changed since the index was built."""
        try:
            return journal.generation(self.watched)
        except SearchError:
            return ""

    def search(self, text: str, k: int) -> Answer:
        """Ask without filters."""
        return self.search_with(text, k, {})

    def search_with(self, text: str, k: int, params: Mapping[str, Scalar]) -> Answer:
        """Ask with the filters that ``params`` name.

        Raises:
            InvalidQuery: a parameter is unknown, or its value is invalid.
        """
        search_response = self._asked(text, k, params, self.mode)
        return Answer(
            self.hits_of(search_response), self._who(search_response), search_response.explain.note
        )

    def stages(self, text: str, k: int, params: Mapping[str, Scalar]) -> tuple[Stage, ...]:
        """Ask in each mode that leads to the one that answers.

        A mode that another one answers for, by a fallback or the kill switch, is not a stage.

        Raises:
            InvalidQuery: a parameter is unknown, or its value is invalid.
        """
        shown = self._asked(text, k, params, self.mode)
        answering = SearchMode(shown.explain.actual_mode)
        found = []
        for mode in MADE_OF[answering][:-1]:
            part = self._asked(text, k, params, mode)
            if not part.degraded and part.explain.actual_mode == mode:
                beside = mode is SearchMode.SEMANTIC
                found.append(Stage(NAMES[mode], self.hits_of(part), beside))
        return (*found, Stage(NAMES[answering], self.hits_of(shown)))

    def explain(self, text: str, k: int, params: Mapping[str, Scalar]) -> Explained:
        """Give the service's own explanation.

        Raises:
            InvalidQuery: as ``search_with``.
        """
        return Explained(asdict(self._asked(text, k, params, self.mode).explain), {})

    def _asked(
        self, text: str, k: int, params: Mapping[str, Scalar], mode: SearchMode
    ) -> SearchResponse:
        return self.service.search(taken.question(text, mode, k, params))

    def hits_of(self, search_response: SearchResponse) -> tuple[Hit, ...]:
        """Name the documents of the messages of a page."""
        return tuple(
            Hit(self._document(hit.message_id), hit.score, hit.raw_score)
            for hit in search_response.hits
        )

    def _document(self, message_id: int) -> str:
        """Name the document of a message; one that was written later is no document."""
        if 0 < message_id <= len(self.doc_ids):
            return self.doc_ids[message_id - 1]
        return f"message {message_id}"

    def _who(self, search_response: SearchResponse) -> str:
        """Give the arm's fingerprint only where the first tier of its chain answered."""
        if not search_response.degraded:
            return self.manifest.fingerprint
        stale = ["stale"] if search_response.stale else []
        by = [
            search_response.served_by,
            search_response.explain.method,
            search_response.unread,
            *stale,
        ]
        return of_json([self.manifest.fingerprint, *by])
