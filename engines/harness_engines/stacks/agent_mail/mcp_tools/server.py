"""The tools of message search, and the server that offers them: arguments in, one page out."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

from mcp.server.lowlevel import Server

from harness.core.digest import of_json
from harness.core.engine import Manifest
from harness_engines import mcp_server
from harness_engines.contract import InvalidQuery, SearchError
from harness_engines.mcp_server import CALLER, RefusalCode, Tool, ToolArguments, ToolRefusal
from harness_engines.stacks.agent_mail import contract
from harness_engines.stacks.agent_mail.contract import DocKind, Names, SearchMode, SearchQuery
from harness_engines.stacks.agent_mail.ingest import Draft, Ingest, IngestedMessages
from harness_engines.stacks.agent_mail.mcp_tools import arguments as wire
from harness_engines.stacks.agent_mail.mcp_tools.arguments import EVERY_PROJECT
from harness_engines.stacks.agent_mail.pipeline.plan import KillSwitch, engine_chain
from harness_engines.stacks.agent_mail.pipeline.scope import Scope
from harness_engines.stacks.agent_mail.service import MailSearch
from harness_engines.stacks.agent_mail.views import plain


def question(
    args: wire.Arguments, directory: Names
) -> tuple[SearchQuery, wire.QueryAssistance | None]:
    """Write the query, and what a caller is told of how its text was read."""
    product_id, within, project_id = _where(args, directory)
    times = contract.TimeRange(args.date_start, args.date_end)
    if _contradict(times):
        bounds = map(wire.written, (args.date_start or 0, args.date_end or 0))
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
        importance=args.importance or (),
        direction=args.direction,
        agent_name=args.agent_name or None,
        thread_id=args.thread_id or None,
        ack_required=args.ack_required,
        time_range=times,
        sender_name=args.sender or None,
        recipient_name=args.recipient or None,
        min_score=args.min_score,
        ranking=args.ranking or contract.RankingMode.RELEVANCE,
        limit=args.limit,
        cursor=args.cursor or None,
        explain=args.explain,
        rerank_top_k=args.rerank_top_k,
        rrf_k=args.rrf_k,
    )

    def takes(
        hint: wire.HintedFilter, value: str, typed: str
    ) -> wire.HintApplied | wire.HintUnread:
        """Take a hint that can be read; a parameter or an earlier hint goes before it."""
        nonlocal query
        try:
            read = hint.read(value) if hint.read else project_called(value, directory, within)
        except (ToolRefusal, ValueError) as exc:
            reason = exc.problem if isinstance(exc, ToolRefusal) else str(exc)
            return wire.HintUnread(typed=typed, reason=reason)
        of_time = hint.filter in {"min_ts", "max_ts"}
        within_query: Any = query.time_range if of_time else query
        known = getattr(within_query, hint.filter)
        hinted = replace(within_query, **{hint.filter: read})
        hinted = replace(query, time_range=hinted) if of_time else hinted
        counts = known in {None, (), read} and not _contradict(hinted.time_range)
        if counts:
            query = hinted
        return wire.HintApplied(field=hint.names[0], value=value, typed=typed, applied=counts)

    said = wire.read_hints(args.query, takes)
    query = replace(query, text=said.text)
    return query, said if said.hints or said.unread or said.did_you_mean else None


def _contradict(times: contract.TimeRange) -> bool:
    """Return whether a range begins after its end."""
    return times.min_ts is not None and times.max_ts is not None and times.min_ts > times.max_ts


def _where(
    args: wire.Arguments, directory: Names
) -> tuple[int | None, Collection[int] | None, int | None]:
    """Look up the product with its projects, and the project; any may be None."""
    if isinstance(args, wire.InProduct):
        product_id = directory.product_called(args.product_key)
        if product_id is None:
            raise ToolRefusal(f"no product {args.product_key!r}", RefusalCode.NOT_FOUND)
        within = directory.projects_of_product(product_id)
        named = project_called(args.project, directory, within) if args.project else None
        return product_id, within, named
    key = args.project_key if isinstance(args, wire.InProject) else EVERY_PROJECT
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


def manifest_under(
    made: Manifest, settings: Mapping[str, Any], switch: KillSwitch | None
) -> Manifest:
    """Return an arm's manifest with this value of its switch; None leaves its own."""
    if switch is None or settings[SETTING] == switch:
        return made
    return replace(made, settings_sha256=of_json({**settings, SETTING: switch.value}))


@dataclass(frozen=True, slots=True)
class Surface:
    """The service over the index of one arm, as one caller sees it."""

    service: MailSearch
    directory: Names
    arm: str
    manifest: Manifest
    mode: SearchMode
    """That of the arm: an answer in another one is not the arm's."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Of the arm; needed where there is a switch."""
    switch: Callable[[], KillSwitch | None] = lambda: None
    """Gives the kill switch as it is now; None leaves the arm's own."""

    def seen_by(self, scope: Scope | None) -> Surface:
        """Return the surface as a caller sees it now; what it signs with tells of no more."""
        service = self.service.seen_by(scope)
        if (view := service.view) is None:
            return replace(self, service=service)
        documents, digest = view.documents, view.corpus_sha256
        made = replace(self.manifest, documents=documents, corpus_sha256=digest)
        return replace(self, service=service, directory=view.names, manifest=made)

    @property
    def now(self) -> Surface:
        """The same under the switch as it is now; the index stays open."""
        switch = self.switch()
        if switch is None:
            return self
        made = manifest_under(self.manifest, self.settings, switch)
        return replace(self, service=replace(self.service, switch=switch), manifest=made)

    def who(self, switch: KillSwitch) -> tuple[str, str]:
        """Return the fingerprint and the engine of answers in the arm's mode under ``switch``."""
        signed = manifest_under(self.manifest, self.settings, switch).fingerprint
        return signed, engine_chain(self.mode, switch, DocKind.MESSAGE)[0].value

    def search(self, args: wire.Arguments) -> wire.SearchResult:
        """Answer a call. Whatever fails inside is a valid page that says so (section 9.2)."""
        try:
            query, said = question(args, self.directory)
            found = self._from(query, args.offset)
        except ToolRefusal:
            raise
        except Exception as exc:  # noqa: BLE001  told, and logged where it is not known
            signed = self._signed(of_json([self.manifest.fingerprint, NOBODY]), NOBODY, NOBODY)
            reason = wire.told([wire.Signal.SEARCH_FAILED], self._told(exc), degraded=True)
            return wire.SearchResult(result=[], diagnostics=reason, served_by=signed)
        return self._result(args, query, said, found)

    def subjects(self, args: wire.Beginning) -> wire.SubjectsFound:
        """Complete what is typed by subjects that the caller may see."""
        try:
            key = args.project_key
            project = None if key == EVERY_PROJECT else project_called(key, self.directory)
            messages = self.service.beginning(args.prefix, project, args.limit)
        except ToolRefusal:
            raise
        except Exception as exc:  # noqa: BLE001  as above
            return wire.SubjectsFound(subjects=[], reason=self._told(exc))
        subjects = [wire.SubjectShown(id=one.message_id, subject=one.subject) for one in messages]
        return wire.SubjectsFound(subjects=subjects)

    def _told(self, exc: Exception) -> str:
        if isinstance(exc, SearchError):
            return str(exc) if self.service.view is None else plain(exc)
        LOG.error("search failed", exc_info=exc)
        return f"{type(exc).__name__} in the service; see its log"

    def _from(self, query: SearchQuery, offset: int) -> contract.SearchResponse:
        """Pass ``offset`` messages over by pages, and give the page after them."""
        cursor, left = query.cursor, offset
        while left:
            step = replace(query, limit=min(left, contract.MAX_LIMIT), cursor=cursor)
            passed = self.service.search(step)
            left -= len(passed.hits) + len(passed.entities)
            cursor = passed.next_cursor
            if cursor is None:
                return replace(passed, hits=(), entities=())
        return self.service.search(replace(query, cursor=cursor))

    def _result(
        self,
        args: wire.Arguments,
        query: SearchQuery,
        said: wire.QueryAssistance | None,
        found: contract.SearchResponse,
    ) -> wire.SearchResult:
        explain = found.explain
        diagnostics = wire.diagnose(found)
        signals = diagnostics.signals if diagnostics else []
        searched = {wire.Signal.INVALID_QUERY, wire.Signal.SEARCH_FAILED}.isdisjoint(signals)
        begins = not args.offset and not args.cursor
        empty = not found.hits and not found.entities
        fingerprint, by = self.manifest.fingerprint, found.served_by
        other = query.mode is not self.mode or bool(query.rrf_k or query.rerank_top_k)
        if other or (diagnostics is not None and diagnostics.degraded):
            fingerprint = of_json([fingerprint, query.mode, by, explain.method])
        entities = [_entity(hit) for hit in found.entities]
        return wire.SearchResult(
            result=[_shown(hit) for hit in found.hits],
            entities=None if query.doc_kind is DocKind.MESSAGE else entities,
            assistance=said,
            guidance=guide(query, said) if empty and begins and searched else None,
            explain=explain if args.explain else None,
            next_cursor=found.next_cursor,
            diagnostics=diagnostics,
            served_by=self._signed(fingerprint, by, str(explain.actual_mode)),
        )

    def _signed(self, fingerprint: str, engine: str, mode: str) -> wire.ServedBy:
        """Sign: with the arm's fingerprint only what the arm itself answered."""
        return wire.ServedBy(
            arm=self.arm,
            fingerprint=fingerprint,
            documents=self.manifest.documents,
            corpus_sha256=self.manifest.corpus_sha256,
            engine=engine,
            mode=mode,
        )


def _shown(hit: contract.SearchHit) -> wire.MessageShown:
    shown = hit._asdict()
    del shown["body"]
    return wire.MessageShown(id=shown.pop("message_id"), sender=shown.pop("sender_name"), **shown)


def _entity(hit: contract.EntityHit) -> wire.EntityShown:
    one = hit.entity
    about: dict[str, Any]
    if isinstance(one, contract.Agent):
        about = {"program": one.program, "model": one.model, "description": one.task_description}
    else:
        about = {"slug": one.slug, "description": one.description}
    return wire.EntityShown(
        kind=hit.doc_kind.value,
        id=hit.doc_id,
        project_id=one.project_id,
        name=one.name,
        score=hit.score,
        raw_score=hit.raw_score,
        **about,
    )


def guide(query: SearchQuery, said: wire.QueryAssistance | None) -> wire.ZeroResultGuidance:
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
    as_words = "{} was searched for as words".format
    found = [(kind, detail) for kind, detail in filters.items() if detail]
    if said is not None:
        found += [("fix_hint", f"{as_words(one.typed)}: {one.reason}") for one in said.unread]
        slips = said.did_you_mean
        found += [("fix_typo", f"{as_words(one.typed)}; {one.suggestion}?") for one in slips]
    simpler = ("simplify_query", "fewer or more general words may find more")
    suggestions = [wire.Suggestion(kind=kind, detail=why) for kind, why in found or [simpler]]
    return wire.ZeroResultGuidance(suggestions=suggestions)


NAME = "agent-mail-search"
MESSAGES, PRODUCT, SUBJECT = "search_messages", "search_messages_product", "complete_subject"


class Offered(NamedTuple):
    """A tool: its arguments, what it gives, and how a surface answers it."""

    about: str
    takes: type[ToolArguments]
    gives: type[wire.ResultModel]
    answer: Callable[[Surface, Any], wire.ResultModel]


TOOLS: Mapping[str, Offered] = {
    MESSAGES: Offered(
        "Search the messages, agents or projects of a project, or of every project with *.",
        wire.InProject,
        wire.SearchResult,
        Surface.search,
    ),
    PRODUCT: Offered(
        "Search the messages of all projects of a product.",
        wire.InProduct,
        wire.SearchResult,
        Surface.search,
    ),
    SUBJECT: Offered(
        "Complete a subject that is being typed.",
        wire.Beginning,
        wire.SubjectsFound,
        Surface.subjects,
    ),
}


def writing(box: Ingest) -> Mapping[str, Offered]:
    """Return the tools that change messages, for whoever sees all of them."""

    def insert(surface: Surface, args: wire.InsertMessage) -> IngestedMessages:
        given = args.model_dump(exclude={"project_key", "sender"})
        project = project_called(args.project_key, surface.directory)
        return box.insert(Draft(project, sender_name=args.sender, **given))

    def edit(_: Surface, args: wire.EditMessage) -> IngestedMessages:
        return box.edit(args.id, **args.model_dump(exclude={"id"}, exclude_none=True))

    def delete(_: Surface, args: wire.DeleteMessage) -> IngestedMessages:
        return box.delete(args.id)

    def changed(change: Callable[..., IngestedMessages], by: Surface, args: object) -> wire.Changed:
        if by.service.scope is not None:
            raise ToolRefusal("only an operator may change messages", RefusalCode.FORBIDDEN)
        try:
            done = change(by, args)
        except InvalidQuery as exc:
            raise ToolRefusal(str(exc), RefusalCode.NOT_FOUND) from exc
        return wire.Changed(id=done.message_ids[0], generation=done.generation)

    takes: Mapping[str, tuple[Callable[..., IngestedMessages], str, type[ToolArguments]]] = {
        "insert_message": (insert, "Write a new message.", wire.InsertMessage),
        "edit_message": (edit, "Change a message.", wire.EditMessage),
        "delete_message": (delete, "Delete a message.", wire.DeleteMessage),
    }
    return {
        name: Offered(about, kind, wire.Changed, partial(changed, change))
        for name, (change, about, kind) in takes.items()
    }


def application(
    surface: Surface, box: Ingest | None = None, caller: Scope | None = None
) -> Server[Any]:
    """Make a server of the tools; its version is the fingerprint of who answers at the start.

    ``caller`` is whom requests are answered for that bring no token; None is an operator.
    """
    made = surface.now.manifest
    if caller is not None:
        made = replace(made, documents=0, corpus_sha256="")

    def answer(name: str, offered: Offered, args: ToolArguments) -> Mapping[str, Any]:
        try:
            return offered.answer(surface.now.seen_by(CALLER.get(caller)), args).written()
        except SearchError as exc:
            LOG.warning("%s: %s", name, exc)
            raise ToolRefusal(str(exc), RefusalCode.FAILED) from exc

    tools = [
        Tool(name, one.about, one.takes, partial(answer, name, one), one.gives)
        for name, one in {**TOOLS, **(writing(box) if box else {})}.items()
    ]
    return mcp_server.application(NAME, surface.arm, made.fingerprint, tools)
