"""Message search behind its tools: arguments in, one page with all that is to be said of it out."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace

from engines.contract.errors import SearchError
from engines.stacks.agent_mail.contract.directory import Names
from engines.stacks.agent_mail.contract.query import MAX_LIMIT, SearchMode, SearchQuery
from engines.stacks.agent_mail.contract.results import SearchHit, SearchResponse
from engines.stacks.agent_mail.mcp_tools.arguments import EVERY_PROJECT, Arguments
from engines.stacks.agent_mail.mcp_tools.diagnostics import Signal, diagnose, failed
from engines.stacks.agent_mail.mcp_tools.hints import Slip
from engines.stacks.agent_mail.mcp_tools.pathless import pathless, without_paths
from engines.stacks.agent_mail.mcp_tools.question import Question, project_called, question
from engines.stacks.agent_mail.mcp_tools.refused import Refused
from engines.stacks.agent_mail.mcp_tools.results import (
    MessageShown,
    SearchDiagnostics,
    SearchResult,
    ServedBy,
    Suggestion,
    ZeroResultGuidance,
)
from engines.stacks.agent_mail.mcp_tools.subjects import (
    Beginning,
    SubjectsFound,
    SubjectShown,
    beginning,
)
from engines.stacks.agent_mail.pipeline.scope import Scope
from engines.stacks.agent_mail.pipeline.view import plain
from engines.stacks.agent_mail.service import MailSearch
from harness.core.digest import of_json
from harness.core.engine import Manifest

LOG = logging.getLogger("engines.mail.surface")
NOBODY = "none"
NO_SEARCH = {Signal.INVALID_QUERY.value, Signal.SEARCH_FAILED.value}


@dataclass(frozen=True, slots=True)
class Identity:
    """Which arm is served, and from which index."""

    arm: str
    manifest: Manifest


@dataclass(frozen=True, slots=True)
class Surface:
    """The service as one caller sees it; ``scope`` None is an operator, who sees all."""

    service: MailSearch
    directory: Names
    identity: Identity
    mode: SearchMode
    """Asked for where a caller names none; another one is not the arm."""
    scope: Scope | None = None

    def seen_by(self, scope: Scope | None) -> Surface:
        """Give the surface as another caller sees it; None is an operator."""
        return self if scope is self.scope else replace(self, scope=scope)

    def search(self, args: Arguments) -> SearchResult:
        """Answer a call. Whatever fails inside is a valid page that says so (section 9.2).

        Raises:
            Refused: the arguments cannot be meant.
        """
        if self.scope is not None and not self.scope.audited and self.service.view is None:
            return self._seen(self.scope).search(args)
        try:
            asked = question(args, self.directory, self.mode)
            search_response = self._from(asked.query, args.offset)
        except Refused:
            raise
        except SearchError as exc:
            return self._failed(pathless(str(exc)) if self.service.view is None else plain(exc))
        except Exception as exc:
            LOG.exception("search failed")
            return self._failed(f"{type(exc).__name__} in the service; see its log")
        return self._result(
            args, asked, replace(search_response, explain=without_paths(search_response.explain))
        )

    def subjects(self, args: Beginning) -> SubjectsFound:
        """Complete what is typed by subjects that the caller may see.

        Raises:
            Refused: the project is unknown.
        """
        if self.scope is not None and not self.scope.audited and self.service.view is None:
            return self._seen(self.scope).subjects(args)
        try:
            key = args.project_key
            project = None if key == EVERY_PROJECT else project_called(key, self.directory)
            messages = beginning(self.service, args.prefix, project, args.limit, self.scope)
        except Refused:
            raise
        except SearchError as exc:
            said = pathless(str(exc)) if self.service.view is None else plain(exc)
            return SubjectsFound(subjects=[], reason=said)
        except Exception as exc:
            LOG.exception("completing failed")
            return SubjectsFound(subjects=[], reason=f"{type(exc).__name__} in the service")
        return SubjectsFound(
            subjects=[SubjectShown(id=one.message_id, subject=one.subject) for one in messages]
        )

    def _seen(self, scope: Scope) -> Surface:
        """Narrow the surface to what its viewer may see; what it signs with tells of no more."""
        view = self.service.view_of(scope)
        made = replace(
            self.identity.manifest, documents=view.documents, corpus_sha256=view.corpus_sha256
        )
        return replace(
            self,
            service=self.service.within(view),
            directory=view.names,
            identity=replace(self.identity, manifest=made),
        )

    def _from(self, query: SearchQuery, offset: int) -> SearchResponse:
        """Pass ``offset`` messages over by pages, and give the page after them."""
        cursor, left = query.cursor, offset
        while left:
            step = replace(query, limit=min(left, MAX_LIMIT), cursor=cursor)
            passed = self.service.search(step, self.scope)
            left -= len(passed.hits)
            cursor = passed.next_cursor
            if cursor is None:
                return replace(passed, hits=())
        return self.service.search(replace(query, cursor=cursor), self.scope)

    def _result(
        self, args: Arguments, asked: Question, search_response: SearchResponse
    ) -> SearchResult:
        diagnostics = diagnose(search_response)
        starts = not args.offset and not args.cursor
        searched = diagnostics is None or not NO_SEARCH & set(diagnostics.signals)
        empty = not search_response.hits and starts and searched
        return SearchResult(
            result=[_shown(hit) for hit in search_response.hits],
            assistance=asked.assistance,
            guidance=guide(asked.query, asked.slips) if empty else None,
            explain=search_response.explain if args.explain else None,
            next_cursor=search_response.next_cursor,
            diagnostics=diagnostics,
            served_by=self._served_by(asked.query.mode, search_response, diagnostics),
        )

    def _served_by(
        self,
        mode: SearchMode,
        search_response: SearchResponse,
        diagnostics: SearchDiagnostics | None,
    ) -> ServedBy:
        """Sign with the arm's fingerprint only what the arm itself answered.

        A question that says nothing is answered by the arm, if with nothing.
        """
        own = self.identity.manifest.fingerprint
        if mode is not self.mode or (diagnostics is not None and diagnostics.degraded):
            own = of_json([own, mode, search_response.served_by, search_response.explain.method])
        return self._signed(
            own, search_response.served_by, str(search_response.explain.actual_mode)
        )

    def _failed(self, reason: str) -> SearchResult:
        own = of_json([self.identity.manifest.fingerprint, NOBODY])
        return SearchResult(
            result=[], diagnostics=failed(reason), served_by=self._signed(own, NOBODY, NOBODY)
        )

    def _signed(self, fingerprint: str, engine: str, mode: str) -> ServedBy:
        made = self.identity.manifest
        return ServedBy(
            arm=self.identity.arm,
            fingerprint=fingerprint,
            documents=made.documents,
            corpus_sha256=made.corpus_sha256,
            engine=engine,
            mode=mode,
        )


def _shown(hit: SearchHit) -> MessageShown:
    return MessageShown(
        id=hit.message_id,
        subject=hit.subject,
        importance=hit.importance.value,
        ack_required=hit.ack_required,
        created_ts=hit.created_ts,
        thread_id=hit.thread_id,
        sender=hit.sender_name,
        project_id=hit.project_id,
        score=hit.score,
        raw_score=hit.raw_score,
        redacted=hit.redacted,
    )


def guide(query: SearchQuery, slips: Sequence[Slip]) -> ZeroResultGuidance:
    """List suggestions in a fixed order: filters by how much they hide, slips, then the text."""
    agents = (
        ("sender", query.sender_name),
        ("recipient", query.recipient_name),
        ("agent_name", query.agent_name),
    )
    named = " and ".join(f"{name} {value}" for name, value in agents if value is not None)
    levels = ",".join(query.importance)
    told = {
        "broaden_date_range": ""
        if query.time_range.is_open
        else "only messages of a range of dates were searched",
        "drop_importance_filter": levels and f"only messages of importance {levels} were searched",
        "drop_agent_filter": named and f"only messages of {named} were searched",
        "drop_thread_filter": ""
        if query.thread_id is None
        else f"only the thread {query.thread_id} was searched",
        "drop_ack_filter": ""
        if query.ack_required is None
        else f"only messages with ack_required {str(query.ack_required).lower()} were searched",
    }
    found = [Suggestion(kind=kind, detail=detail) for kind, detail in told.items() if detail]
    found += [
        Suggestion(kind="fix_typo", detail=f"{slip.typed} was searched for as words; {slip.meant}?")
        for slip in slips
    ]
    simpler = Suggestion(kind="simplify_query", detail="fewer or more general words may find more")
    return ZeroResultGuidance(suggestions=found or [simpler])
