"""The tools of message search, and the server that offers them: arguments in, one page out."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from mcp.server.lowlevel import Server

from harness.core.digest import of_json
from harness.core.engine import Manifest
from harness_engines import mcp_server
from harness_engines.contract import InvalidQuery, SearchError
from harness_engines.mcp_server import CALLER, RefusalCode, Tool, ToolArguments, ToolRefusal
from harness_engines.stacks.agent_mail.contract import (
    MAX_LIMIT,
    Agent,
    DocKind,
    EntityHit,
    Names,
    RankingMode,
    SearchHit,
    SearchMode,
    SearchQuery,
    SearchResponse,
    TimeRange,
)
from harness_engines.stacks.agent_mail.ingest import Draft, Ingest, IngestedMessages
from harness_engines.stacks.agent_mail.mcp_tools import arguments
from harness_engines.stacks.agent_mail.mcp_tools.arguments import (
    EVERY_PROJECT,
    Arguments,
    Beginning,
    Changed,
    DeleteMessage,
    EditMessage,
    EntityShown,
    HintApplied,
    HintField,
    HintUnread,
    InProduct,
    InProject,
    InsertMessage,
    MessageShown,
    QueryAssistance,
    ResultModel,
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
from harness_engines.stacks.agent_mail.pipeline.plan import KillSwitch, engine_chain
from harness_engines.stacks.agent_mail.pipeline.scope import Scope
from harness_engines.stacks.agent_mail.service import MailSearch
from harness_engines.stacks.agent_mail.views import plain

HINTED: Mapping[HintField, tuple[str, Callable[[str], Any]]] = {
    HintField.FROM: ("sender_name", str),
    HintField.THREAD: ("thread_id", str),
    HintField.IMPORTANCE: ("importance", arguments.levels),
    HintField.AFTER: ("min_ts", arguments.earliest),
    HintField.BEFORE: ("max_ts", arguments.latest),
}
"""What a hint filters by, and how it is read; ``project:`` is looked up."""


def question(args: Arguments, directory: Names) -> tuple[SearchQuery, QueryAssistance | None]:
    """Write the query, and what a caller is told of how its text was read."""
    product_id, within, project_id = _where(args, directory)
    times = TimeRange(args.date_start, args.date_end)
    if _contradict(times):
        bounds = map(arguments.written, (args.date_start or 0, args.date_end or 0))
        raise ToolRefusal("date_start {} is after date_end {}".format(*bounds))
    if args.direction and not args.agent_name:
        raise ToolRefusal("direction is that of an agent; give agent_name too")
    if args.offset and args.cursor:
        raise ToolRefusal("offset and cursor both say where to begin; give one")
    query = SearchQuery(
        args.query,
        mode=args.mode or SearchMode.LEXICAL,
        doc_kind=args.doc_kind or DocKind.MESSAGE,
        project_id=project_id,
        product_id=product_id,
        importance=args.importance,
        direction=args.direction,
        agent_name=args.agent_name or None,
        thread_id=args.thread_id or None,
        ack_required=args.ack_required,
        time_range=times,
        sender_name=args.sender or None,
        recipient_name=args.recipient or None,
        min_score=args.min_score,
        ranking=args.ranking or RankingMode.RELEVANCE,
        limit=args.limit,
        cursor=args.cursor or None,
        explain=args.explain,
        rerank_top_k=args.rerank_top_k,
        rrf_k=args.rrf_k,
    )

    def takes(hint: HintField, value: str, typed: str) -> HintApplied | HintUnread:
        """Take a hint that can be read; a parameter or an earlier hint goes before it."""
        nonlocal query
        read: Any
        try:
            if hint is HintField.PROJECT:
                name, read = "project_id", project_called(value, directory, within)
            else:
                name, how = HINTED[hint]
                read = how(value)
        except ToolRefusal as exc:
            return HintUnread(typed=typed, reason=exc.problem)
        except ValueError as exc:
            return HintUnread(typed=typed, reason=str(exc))
        if name in {"min_ts", "max_ts"}:
            known = getattr(query.time_range, name)
            hinted = replace(query, time_range=replace(query.time_range, **{name: read}))
        else:
            known, hinted = getattr(query, name), replace(query, **{name: read})
        counts = known in {None, (), read} and not _contradict(hinted.time_range)
        if counts:
            query = hinted
        return HintApplied(field=hint.value, value=value, typed=typed, applied=counts)

    said = arguments.read_hints(args.query, takes)
    query = replace(query, text=said.text)
    return query, said if said.hints or said.unread or said.did_you_mean else None


def _contradict(times: TimeRange) -> bool:
    """Return whether a range begins after its end."""
    return times.min_ts is not None and times.max_ts is not None and times.min_ts > times.max_ts


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


LOG = logging.getLogger("engines.mail.surface")
NOBODY = "none"
SETTING = "search_engine"


@dataclass(frozen=True, slots=True)
class ServedIndex:
    """Which arm is served, and from which index."""

    arm: str
    manifest: Manifest

    def under(self, settings: Mapping[str, Any], switch: KillSwitch | None) -> ServedIndex:
        """Identity of the arm with this value of its switch; None leaves its own."""
        if switch is None or settings[SETTING] == switch:
            return self
        changed = of_json({**settings, SETTING: switch.value})
        return replace(self, manifest=replace(self.manifest, settings_sha256=changed))


@dataclass(frozen=True, slots=True)
class Surface:
    """The service as one caller sees it; ``scope`` None is an operator, who sees all."""

    service: MailSearch
    directory: Names
    identity: ServedIndex
    mode: SearchMode
    """That of the arm: an answer in another one is not the arm's."""
    scope: Scope | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Of the arm; needed where there is a switch."""
    switch: Callable[[], KillSwitch | None] = lambda: None
    """Gives the kill switch as it is now; None leaves the arm's own."""

    def seen_by(self, scope: Scope | None) -> Surface:
        """Return the surface as another caller sees it; None is an operator."""
        return self if scope is self.scope else replace(self, scope=scope)

    @property
    def now(self) -> Surface:
        """The same under the switch as it is now; the index stays open."""
        switch = self.switch()
        if switch is None:
            return self
        service = replace(self.service, switch=switch)
        return replace(self, service=service, identity=self.identity.under(self.settings, switch))

    def who(self, switch: KillSwitch) -> tuple[str, str]:
        """Return the fingerprint and the engine of answers in the arm's mode under ``switch``."""
        signed = self.identity.under(self.settings, switch).manifest.fingerprint
        return signed, engine_chain(self.mode, switch, DocKind.MESSAGE)[0].value

    def search(self, args: Arguments) -> SearchResult:
        """Answer a call. Whatever fails inside is a valid page that says so (section 9.2)."""
        if (narrowed := self._narrowed()) is not self:
            return narrowed.search(args)
        try:
            query, said = question(args, self.directory)
            found = self._from(query, args.offset)
        except ToolRefusal:
            raise
        except Exception as exc:  # noqa: BLE001  told, and logged where it is not known
            own = of_json([self.identity.manifest.fingerprint, NOBODY])
            signed, reason = self._signed(own, NOBODY, NOBODY), failed(self._told(exc))
            return SearchResult(result=[], diagnostics=reason, served_by=signed)
        return self._result(args, query, said, found)

    def subjects(self, args: Beginning) -> SubjectsFound:
        """Complete what is typed by subjects that the caller may see."""
        if (narrowed := self._narrowed()) is not self:
            return narrowed.subjects(args)
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

    def _narrowed(self) -> Surface:
        """Narrow the surface to what its viewer may see; what it signs with tells of no more."""
        if self.scope is None or self.scope.audited or self.service.view is not None:
            return self
        view = self.service.view_of(self.scope)
        made = replace(
            self.identity.manifest, documents=view.documents, corpus_sha256=view.corpus_sha256
        )
        return replace(
            self,
            service=self.service.within(view),
            directory=view.names,
            identity=replace(self.identity, manifest=made),
        )

    def _told(self, exc: Exception) -> str:
        if isinstance(exc, SearchError):
            return pathless(str(exc)) if self.service.view is None else plain(exc)
        LOG.error("search failed", exc_info=exc)
        return f"{type(exc).__name__} in the service; see its log"

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
        self,
        args: Arguments,
        query: SearchQuery,
        said: QueryAssistance | None,
        found: SearchResponse,
    ) -> SearchResult:
        explain = without_paths(found.explain)
        search_response = replace(found, explain=explain)
        diagnostics = diagnose(search_response)
        signals = diagnostics.signals if diagnostics else []
        searched = {Signal.INVALID_QUERY, Signal.SEARCH_FAILED}.isdisjoint(signals)
        begins = not args.offset and not args.cursor
        empty = not found.hits and not found.entities
        fingerprint, by = self.identity.manifest.fingerprint, found.served_by
        other = query.mode is not self.mode or bool(query.rrf_k or query.rerank_top_k)
        if other or (diagnostics is not None and diagnostics.degraded):
            fingerprint = of_json([fingerprint, query.mode, by, explain.method])
        entities = [_entity(hit) for hit in found.entities]
        return SearchResult(
            result=[_shown(hit) for hit in found.hits],
            entities=None if query.doc_kind is DocKind.MESSAGE else entities,
            assistance=said,
            guidance=guide(query, said) if empty and begins and searched else None,
            explain=explain if args.explain else None,
            next_cursor=search_response.next_cursor,
            diagnostics=diagnostics,
            served_by=self._signed(fingerprint, by, str(explain.actual_mode)),
        )

    def _signed(self, fingerprint: str, engine: str, mode: str) -> ServedBy:
        """Sign: with the arm's fingerprint only what the arm itself answered."""
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


def guide(query: SearchQuery, said: QueryAssistance | None) -> ZeroResultGuidance:
    """List suggestions in a fixed order: filters by how much they hide, hints, then the text."""
    agents = (
        ("sender", query.sender_name),
        ("recipient", query.recipient_name),
        ("agent_name", query.agent_name),
    )
    named = " and ".join(f"{name} {value}" for name, value in agents if value is not None)
    thread, ack, levels = query.thread_id, query.ack_required, ",".join(query.importance)
    only = "only messages {} were searched".format
    filters = {
        "broaden_date_range": "" if query.time_range.is_open else only("of a range of dates"),
        "drop_importance_filter": levels and only(f"of importance {levels}"),
        "drop_agent_filter": named and only(f"of {named}"),
        "drop_thread_filter": "" if thread is None else f"only the thread {thread} was searched",
        "drop_ack_filter": "" if ack is None else only(f"with ack_required {str(ack).lower()}"),
    }
    found = [Suggestion(kind=kind, detail=detail) for kind, detail in filters.items() if detail]
    if said is not None:
        for one in said.unread:
            why = f"{one.typed} was searched for as words: {one.reason}"
            found.append(Suggestion(kind="fix_hint", detail=why))
        for slip in said.did_you_mean:
            why = f"{slip.typed} was searched for as words; {slip.suggestion}?"
            found.append(Suggestion(kind="fix_typo", detail=why))
    simpler = Suggestion(kind="simplify_query", detail="fewer or more general words may find more")
    return ZeroResultGuidance(suggestions=found or [simpler])


NAME = "agent-mail-search"
MESSAGES, PRODUCT, SUBJECT = "search_messages", "search_messages_product", "complete_subject"


class Offered(NamedTuple):
    """A tool: its arguments, what it gives, and how a surface answers it."""

    about: str
    takes: type[ToolArguments]
    gives: type[ResultModel]
    answer: Callable[[Surface, Any], ResultModel]


TOOLS: Mapping[str, Offered] = {
    MESSAGES: Offered(
        "Search the messages, agents or projects of a project, or of every project with *.",
        InProject,
        SearchResult,
        Surface.search,
    ),
    PRODUCT: Offered(
        "Search the messages of all projects of a product.", InProduct, SearchResult, Surface.search
    ),
    SUBJECT: Offered(
        "Complete a subject that is being typed.", Beginning, SubjectsFound, Surface.subjects
    ),
}


def writing(box: Ingest) -> Mapping[str, Offered]:
    """Return the tools that change messages, for whoever sees all of them."""

    def insert(surface: Surface, args: InsertMessage) -> IngestedMessages:
        given = args.model_dump(exclude={"project_key", "sender"})
        project = project_called(args.project_key, surface.directory)
        return box.insert(Draft(project, sender_name=args.sender, **given))

    def edit(_: Surface, args: EditMessage) -> IngestedMessages:
        return box.edit(args.id, **args.model_dump(exclude={"id"}, exclude_none=True))

    def delete(_: Surface, args: DeleteMessage) -> IngestedMessages:
        return box.delete(args.id)

    return {
        "insert_message": Offered("Write a new message.", InsertMessage, Changed, _changed(insert)),
        "edit_message": Offered("Change a message.", EditMessage, Changed, _changed(edit)),
        "delete_message": Offered("Delete a message.", DeleteMessage, Changed, _changed(delete)),
    }


def _changed(
    change: Callable[[Surface, Any], IngestedMessages],
) -> Callable[[Surface, Any], Changed]:
    """Return the tool that makes a change for operators alone."""

    def answer(surface: Surface, args: ToolArguments) -> Changed:
        if surface.scope is not None:
            raise ToolRefusal("only an operator may change messages", RefusalCode.FORBIDDEN)
        try:
            done = change(surface, args)
        except InvalidQuery as exc:
            raise ToolRefusal(str(exc), RefusalCode.NOT_FOUND) from exc
        return Changed(id=done.message_ids[0], generation=done.generation)

    return answer


def application(surface: Surface, box: Ingest | None = None) -> Server[Any]:
    """Make a server of the tools; its version is the fingerprint of who answers at the start."""
    made = surface.now.identity.manifest
    if surface.scope is not None:
        made = replace(made, documents=0, corpus_sha256="")
    offered = {**TOOLS, **(writing(box) if box else {})}
    return mcp_server.application(
        NAME,
        surface.identity.arm,
        made.fingerprint,
        [
            Tool(name, one.about, one.takes, _answering(surface, name, one), one.gives)
            for name, one in offered.items()
        ],
    )


def _answering(surface: Surface, name: str, offered: Offered) -> Callable[[Any], Mapping[str, Any]]:
    def answer(args: ToolArguments) -> Mapping[str, Any]:
        try:
            seen = surface.now.seen_by(CALLER.get(surface.scope))
            return offered.answer(seen, args).written()
        except SearchError as exc:
            LOG.warning("%s: %s", name, exc)
            raise ToolRefusal(pathless(str(exc)), RefusalCode.FAILED) from exc

    return answer
