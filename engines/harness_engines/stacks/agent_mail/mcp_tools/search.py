"""Message search behind its tools: arguments in, one page out."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, NamedTuple, TypeVar

from harness.core.digest import of_json
from harness.core.engine import Manifest
from harness_engines.contract import SearchError
from harness_engines.mcp_server import RefusalCode, ToolRefusal
from harness_engines.stacks.agent_mail.contract import (
    MAX_LIMIT,
    Agent,
    Direction,
    DocKind,
    EntityHit,
    Importance,
    Names,
    RankingMode,
    SearchHit,
    SearchMode,
    SearchQuery,
    SearchResponse,
    TimeRange,
)
from harness_engines.stacks.agent_mail.mcp_tools import arguments
from harness_engines.stacks.agent_mail.mcp_tools.arguments import (
    EVERY_PROJECT,
    Arguments,
    Beginning,
    DidYouMean,
    EntityShown,
    Hint,
    HintApplied,
    HintField,
    HintUnread,
    InProduct,
    InProject,
    MessageShown,
    QueryAssistance,
    SearchDiagnostics,
    SearchResult,
    ServedBy,
    Signal,
    SubjectsFound,
    SubjectShown,
    Suggestion,
    ZeroResultGuidance,
    diagnose,
    failed,
    pathless,
    without_paths,
)
from harness_engines.stacks.agent_mail.pipeline.scope import Scope
from harness_engines.stacks.agent_mail.service import MailSearch
from harness_engines.stacks.agent_mail.views import plain


class MailQuestion(NamedTuple):
    """What the service gets, and what a caller is told of how the text was read."""

    query: SearchQuery
    assistance: QueryAssistance | None


FACET_OF = {
    HintField.PROJECT: "project_id",
    HintField.FROM: "sender_name",
    HintField.THREAD: "thread_id",
    HintField.IMPORTANCE: "importance",
    HintField.AFTER: "min_ts",
    HintField.BEFORE: "max_ts",
}


def question(args: Arguments, directory: Names) -> MailQuestion:
    """Write the query."""
    product_id, within, project_id = _where(args, directory)
    times = TimeRange(
        _read("date_start", args.date_start, arguments.earliest),
        _read("date_end", args.date_end, arguments.latest),
    )
    if _contradict(times):
        raise ToolRefusal(f"date_start {args.date_start} is after date_end {args.date_end}")
    if args.direction and not args.agent_name:
        raise ToolRefusal("direction is that of an agent; give agent_name too")
    if args.offset and args.cursor:
        raise ToolRefusal("offset and cursor both say where to begin; give one")
    query = SearchQuery(
        args.query,
        mode=_read("mode", args.mode, _one_of(SearchMode)) or SearchMode.LEXICAL,
        doc_kind=_read("doc_kind", args.doc_kind, _one_of(DocKind)) or DocKind.MESSAGE,
        project_id=project_id,
        product_id=product_id,
        importance=_read("importance", args.importance, levels) or (),
        direction=_read("direction", args.direction, _one_of(Direction)),
        agent_name=args.agent_name or None,
        thread_id=args.thread_id or None,
        ack_required=args.ack_required,
        time_range=times,
        sender_name=args.sender or None,
        recipient_name=args.recipient or None,
        min_score=args.min_score,
        ranking=_read("ranking", args.ranking, _one_of(RankingMode)) or RankingMode.RELEVANCE,
        limit=args.limit,
        cursor=args.cursor or None,
        explain=args.explain,
        rerank_top_k=args.rerank_top_k,
        rrf_k=args.rrf_k,
    )
    applied: list[bool] = []
    unread: list[HintUnread] = []

    def takes(hint: Hint) -> bool:
        """Take a hint that can be read; a parameter or an earlier hint goes before it."""
        nonlocal query
        try:
            value = _value(hint, directory, within)
        except (ToolRefusal, ValueError) as exc:
            reason = exc.problem if isinstance(exc, ToolRefusal) else str(exc)
            unread.append(HintUnread(typed=hint.typed, reason=reason))
            return False
        name = FACET_OF[hint.field]
        of = query.time_range if name in {"min_ts", "max_ts"} else query
        is_set, changed = getattr(of, name), replace(of, **{name: value})
        with_it = (
            changed if isinstance(changed, SearchQuery) else replace(query, time_range=changed)
        )
        counts = is_set in {None, (), value} and not _contradict(with_it.time_range)
        if counts:
            query = with_it
        applied.append(counts)
        return True

    typed = arguments.read_hints(args.query, takes)
    query = replace(query, text=typed.text)
    if not (typed.taken or typed.slips or unread):
        return MailQuestion(query, None)
    hints = [
        HintApplied(field=hint.field.value, value=hint.value, typed=hint.typed, applied=counts)
        for hint, counts in zip(typed.taken, applied, strict=True)
    ]
    said = QueryAssistance(text=typed.text, hints=hints, unread=unread, did_you_mean=[*typed.slips])
    return MailQuestion(query, said)


def _contradict(times: TimeRange) -> bool:
    """Return whether a range begins after its end."""
    return times.min_ts is not None and times.max_ts is not None and times.min_ts > times.max_ts


def _value(hint: Hint, directory: Names, within: Collection[int] | None) -> Any:  # noqa: ANN401  what the facet holds
    match hint.field:
        case HintField.PROJECT:
            return project_called(hint.value, directory, within)
        case HintField.IMPORTANCE:
            return levels(hint.value)
        case HintField.AFTER:
            return arguments.earliest(hint.value)
        case HintField.BEFORE:
            return arguments.latest(hint.value)
        case HintField.FROM | HintField.THREAD:
            return hint.value


def levels(text: str) -> tuple[Importance, ...]:
    """Read levels of importance with commas between, each once."""
    read = _one_of(Importance)
    return tuple(dict.fromkeys(read(level) for level in text.split(",") if level.strip()))


def _where(
    args: Arguments, directory: Names
) -> tuple[int | None, Collection[int] | None, int | None]:
    """Look up the product with its projects, and the project; any may be None."""
    if isinstance(args, InProduct):
        product_id = directory.product_called(args.product_key)
        if product_id is None:
            raise ToolRefusal(f"no product {args.product_key!r}", RefusalCode.NOT_FOUND)
        within = directory.projects_of_product(product_id)
        named = project_called(args.project, directory, within) if args.project else None
        return product_id, within, named
    key = args.project_key if isinstance(args, InProject) else EVERY_PROJECT
    return None, None, None if key == EVERY_PROJECT else project_called(key, directory)


def project_called(slug: str, directory: Names, within: Collection[int] | None = None) -> int:
    """Return the number of a project; ``within`` are those that it may be one of."""
    found = directory.project_called(slug)
    if found is None:
        raise ToolRefusal(f"no project {slug!r}", RefusalCode.NOT_FOUND)
    if within is not None and found not in within:
        raise ToolRefusal(f"the project {slug!r} is not one of the product", RefusalCode.NOT_FOUND)
    return found


Value = TypeVar("Value")
Word = TypeVar("Word", bound=StrEnum)


def _read(name: str, text: str, how: Callable[[str], Value]) -> Value | None:
    """Read a parameter; None where it is absent."""
    if not text.strip():
        return None
    try:
        return how(text)
    except ValueError as exc:
        raise ToolRefusal(f"{name}: {exc}") from exc


def _one_of(kind: type[Word]) -> Callable[[str], Word]:
    def read(text: str) -> Word:
        known = {word.value: word for word in kind}
        found = known.get(text.strip().lower())
        if found is None:
            raise ValueError(f"{text!r} is not one of {', '.join(known)}")
        return found

    return read


LOG = logging.getLogger("engines.mail.surface")
NOBODY = "none"
NO_SEARCH = {Signal.INVALID_QUERY.value, Signal.SEARCH_FAILED.value}


@dataclass(frozen=True, slots=True)
class ServedIndex:
    """Which arm is served, and from which index."""

    arm: str
    manifest: Manifest


@dataclass(frozen=True, slots=True)
class Surface:
    """The service as one caller sees it; ``scope`` None is an operator, who sees all."""

    service: MailSearch
    directory: Names
    identity: ServedIndex
    mode: SearchMode
    """That of the arm: an answer in another one is not the arm's."""
    scope: Scope | None = None

    def seen_by(self, scope: Scope | None) -> Surface:
        """Return the surface as another caller sees it; None is an operator."""
        return self if scope is self.scope else replace(self, scope=scope)

    def search(self, args: Arguments) -> SearchResult:
        """Answer a call. Whatever fails inside is a valid page that says so (section 9.2)."""
        if self.scope is not None and not self.scope.audited and self.service.view is None:
            return self._seen(self.scope).search(args)
        try:
            asked = question(args, self.directory)
            search_response = self._from(asked.query, args.offset)
        except ToolRefusal:
            raise
        except Exception as exc:  # noqa: BLE001  told, and logged where it is not known
            own = of_json([self.identity.manifest.fingerprint, NOBODY])
            reason = failed(self._told(exc))
            signed = self._signed(own, NOBODY, NOBODY)
            return SearchResult(result=[], diagnostics=reason, served_by=signed)
        explain = without_paths(search_response.explain)
        return self._result(args, asked, replace(search_response, explain=explain))

    def subjects(self, args: Beginning) -> SubjectsFound:
        """Complete what is typed by subjects that the caller may see."""
        if self.scope is not None and not self.scope.audited and self.service.view is None:
            return self._seen(self.scope).subjects(args)
        try:
            key = args.project_key
            project = None if key == EVERY_PROJECT else project_called(key, self.directory)
            messages = self.service.beginning(args.prefix, project, args.limit, self.scope)
        except ToolRefusal:
            raise
        except Exception as exc:  # noqa: BLE001  as above
            return SubjectsFound(subjects=[], reason=self._told(exc))
        return SubjectsFound(
            subjects=[SubjectShown(id=one.message_id, subject=one.subject) for one in messages]
        )

    def _told(self, exc: Exception) -> str:
        if isinstance(exc, SearchError):
            return pathless(str(exc)) if self.service.view is None else plain(exc)
        LOG.error("search failed", exc_info=exc)
        return f"{type(exc).__name__} in the service; see its log"

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
            left -= len(passed.hits) + len(passed.entities)
            cursor = passed.next_cursor
            if cursor is None:
                return replace(passed, hits=(), entities=())
        return self.service.search(replace(query, cursor=cursor), self.scope)

    def _result(
        self, args: Arguments, asked: MailQuestion, search_response: SearchResponse
    ) -> SearchResult:
        diagnostics = diagnose(search_response)
        starts = not args.offset and not args.cursor
        searched = diagnostics is None or not NO_SEARCH & set(diagnostics.signals)
        found = search_response.hits or search_response.entities
        said = asked.assistance
        of_messages = asked.query.doc_kind is DocKind.MESSAGE
        return SearchResult(
            result=[_shown(hit) for hit in search_response.hits],
            entities=None if of_messages else [_entity(hit) for hit in search_response.entities],
            assistance=asked.assistance,
            guidance=guide(
                asked.query, said.did_you_mean if said else (), said.unread if said else ()
            )
            if not found and starts and searched
            else None,
            explain=search_response.explain if args.explain else None,
            next_cursor=search_response.next_cursor,
            diagnostics=diagnostics,
            served_by=self._served_by(asked.query, search_response, diagnostics),
        )

    def _served_by(
        self,
        query: SearchQuery,
        search_response: SearchResponse,
        diagnostics: SearchDiagnostics | None,
    ) -> ServedBy:
        """Sign with the arm's fingerprint only what the arm itself answered."""
        own, by = self.identity.manifest.fingerprint, search_response.served_by
        explain = search_response.explain
        other = query.mode is not self.mode or bool(query.rrf_k or query.rerank_top_k)
        if other or (diagnostics is not None and diagnostics.degraded):
            own = of_json([own, query.mode, by, explain.method])
        return self._signed(own, by, str(explain.actual_mode))

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
    shown = hit._asdict()
    del shown["body"]
    return MessageShown(id=shown.pop("message_id"), sender=shown.pop("sender_name"), **shown)


def _entity(hit: EntityHit) -> EntityShown:
    one = hit.entity
    about: dict[str, Any]
    if isinstance(one, Agent):
        about = {"program": one.program, "model": one.model, "description": one.task_description}
    else:
        about = {"slug": one.slug, "description": one.description}
    return EntityShown(
        kind=hit.doc_kind.value,
        id=hit.doc_id,
        project_id=one.project_id,
        name=one.name,
        score=hit.score,
        raw_score=hit.raw_score,
        **about,
    )


def guide(
    query: SearchQuery, slips: Sequence[DidYouMean], unread: Sequence[HintUnread] = ()
) -> ZeroResultGuidance:
    """List suggestions in a fixed order: filters by how much they hide, hints, then the text."""
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
        Suggestion(kind="fix_hint", detail=f"{one.typed} was searched for as words: {one.reason}")
        for one in unread
    ]
    found += [
        Suggestion(
            kind="fix_typo", detail=f"{slip.typed} was searched for as words; {slip.suggestion}?"
        )
        for slip in slips
    ]
    simpler = Suggestion(kind="simplify_query", detail="fewer or more general words may find more")
    return ZeroResultGuidance(suggestions=found or [simpler])
