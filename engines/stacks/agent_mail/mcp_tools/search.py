"""Message search behind its tools: arguments in, one page out."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, NamedTuple, TypeVar

from engines.contract import SearchError
from engines.stacks.agent_mail.contract import (
    MAX_LIMIT,
    Direction,
    DocKind,
    Importance,
    Names,
    RankingMode,
    SearchHit,
    SearchMode,
    SearchQuery,
    SearchResponse,
    TimeRange,
)
from engines.stacks.agent_mail.mcp_tools import arguments
from engines.stacks.agent_mail.mcp_tools.arguments import (
    EVERY_PROJECT,
    Arguments,
    Code,
    Hint,
    HintField,
    InProduct,
    InProject,
    Refused,
    Slip,
    Typed,
)
from engines.stacks.agent_mail.mcp_tools.results import (
    DidYouMean,
    HintApplied,
    MessageShown,
    QueryAssistance,
    SearchDiagnostics,
    SearchResult,
    ServedBy,
    Signal,
    Suggestion,
    ZeroResultGuidance,
    diagnose,
    failed,
    pathless,
    without_paths,
)
from engines.stacks.agent_mail.mcp_tools.subjects import (
    Beginning,
    SubjectsFound,
    SubjectShown,
    beginning,
)
from engines.stacks.agent_mail.pipeline.plan import KillSwitch, engine_chain
from engines.stacks.agent_mail.pipeline.scope import Scope
from engines.stacks.agent_mail.pipeline.view import plain
from engines.stacks.agent_mail.service import MailSearch
from harness.core.digest import of_json
from harness.core.engine import Manifest


class Question(NamedTuple):
    """What the service gets, and what a caller is told of how the text was read."""

    query: SearchQuery
    assistance: QueryAssistance | None
    slips: tuple[Slip, ...]


@dataclass(frozen=True, slots=True)
class Facets:
    """Filters that a hint may set too; None is unset."""

    project_id: int | None = None
    sender_name: str | None = None
    thread_id: str | None = None
    importance: tuple[Importance, ...] | None = None
    min_ts: int | None = None
    max_ts: int | None = None

    @property
    def contradict(self) -> bool:
        """Whether the time range begins after its end."""
        return self.min_ts is not None and self.max_ts is not None and self.min_ts > self.max_ts


FACET_OF = {
    HintField.PROJECT: "project_id",
    HintField.FROM: "sender_name",
    HintField.THREAD: "thread_id",
    HintField.IMPORTANCE: "importance",
    HintField.AFTER: "min_ts",
    HintField.BEFORE: "max_ts",
}


def question(args: Arguments, directory: Names, mode: SearchMode) -> Question:
    """Write the query; ``mode`` is requested where the arguments name none.

    Raises:
        Refused: a value cannot be read, two contradict each other, or the project is unknown
            or product.
        SearchError: the directory cannot be read.
    """
    product_id, facets = _where(args, directory)
    facets = replace(
        facets,
        sender_name=args.sender or None,
        thread_id=args.thread_id or None,
        importance=_read("importance", args.importance, levels),
        min_ts=_read("date_start", args.date_start, arguments.earliest),
        max_ts=_read("date_end", args.date_end, arguments.latest),
    )
    if facets.contradict:
        raise Refused(f"date_start {args.date_start} is after date_end {args.date_end}")
    if args.direction and not args.agent_name:
        raise Refused("direction is that of an agent; give agent_name too")
    if args.offset and args.cursor:
        raise Refused("offset and cursor both say where to begin; give one")
    within = None if product_id is None else directory.projects_of_product(product_id)
    reader = _Reader(directory, within, facets)
    typed = arguments.read_hints(args.query, reader.takes)
    facets = reader.facets
    query = SearchQuery(
        typed.text,
        mode=_read("mode", args.mode, _one_of(SearchMode)) or mode,
        project_id=facets.project_id,
        product_id=product_id,
        importance=facets.importance or (),
        direction=_read("direction", args.direction, _one_of(Direction)),
        agent_name=args.agent_name or None,
        thread_id=facets.thread_id,
        ack_required=args.ack_required,
        time_range=TimeRange(facets.min_ts, facets.max_ts),
        sender_name=facets.sender_name,
        recipient_name=args.recipient or None,
        min_score=args.min_score,
        ranking=_read("ranking", args.ranking, _one_of(RankingMode)) or RankingMode.RELEVANCE,
        limit=args.limit,
        cursor=args.cursor or None,
        explain=args.explain,
    )
    return Question(query, _assistance(typed, reader.applied), typed.slips)


class _Reader:
    """Takes hints where they can be read, and remembers which of them count.

    No text is an error: a value that cannot be read leaves the hint standing as words. A parameter,
    or an earlier hint, goes before a hint that says something else.
    """

    def __init__(self, directory: Names, within: Collection[int] | None, facets: Facets) -> None:
        self.facets = facets
        self.applied: list[bool] = []
        self._directory = directory
        self._within = within

    def takes(self, hint: Hint) -> bool:
        try:
            value = self._value(hint)
        except (Refused, ValueError):
            return False
        name = FACET_OF[hint.field]
        is_set = getattr(self.facets, name)
        with_it = replace(self.facets, **{name: value})
        counts = is_set in {None, value} and not with_it.contradict
        if counts:
            self.facets = with_it
        self.applied.append(counts)
        return True

    def _value(self, hint: Hint) -> Any:  # noqa: ANN401  what the facet of the hint holds
        match hint.field:
            case HintField.PROJECT:
                return project_called(hint.value, self._directory, self._within)
            case HintField.IMPORTANCE:
                return levels(hint.value)
            case HintField.AFTER:
                return arguments.earliest(hint.value)
            case HintField.BEFORE:
                return arguments.latest(hint.value)
            case HintField.FROM | HintField.THREAD:
                return hint.value


def levels(text: str) -> tuple[Importance, ...]:
    """Read levels of importance with commas between, each once.

    Raises:
        ValueError: one is unknown.
    """
    read = _one_of(Importance)
    return tuple(dict.fromkeys(read(level) for level in text.split(",") if level.strip()))


def _where(args: Arguments, directory: Names) -> tuple[int | None, Facets]:
    """Look the product and the project up; one of them is None, or both."""
    if isinstance(args, InProduct):
        product_id = directory.product_called(args.product_key)
        if product_id is None:
            raise Refused(f"no product {args.product_key!r}", Code.NOT_FOUND)
        if not args.project:
            return product_id, Facets()
        within = directory.projects_of_product(product_id)
        return product_id, Facets(project_called(args.project, directory, within))
    key = args.project_key if isinstance(args, InProject) else EVERY_PROJECT
    return None, Facets(None if key == EVERY_PROJECT else project_called(key, directory))


def project_called(slug: str, directory: Names, within: Collection[int] | None = None) -> int:
    """Give the number of a project; ``within`` are those that it may be one of.

    Raises:
        Refused: there is none, or another one.
    """
    found = directory.project_called(slug)
    if found is None:
        raise Refused(f"no project {slug!r}", Code.NOT_FOUND)
    if within is not None and found not in within:
        raise Refused(f"the project {slug!r} is not one of the product", Code.NOT_FOUND)
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
        raise Refused(f"{name}: {exc}") from exc


def _one_of(kind: type[Word]) -> Callable[[str], Word]:
    def read(text: str) -> Word:
        known = {word.value: word for word in kind}
        found = known.get(text.strip().lower())
        if found is None:
            raise ValueError(f"{text!r} is not one of {', '.join(known)}")
        return found

    return read


def _assistance(typed: Typed, applied: Collection[bool]) -> QueryAssistance | None:
    if not typed.taken and not typed.slips:
        return None
    return QueryAssistance(
        text=typed.text,
        hints=[
            HintApplied(field=hint.field.value, value=hint.value, typed=hint.typed, applied=counts)
            for hint, counts in zip(typed.taken, applied, strict=True)
        ],
        did_you_mean=[DidYouMean(typed=slip.typed, suggestion=slip.meant) for slip in typed.slips],
    )


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


SETTING = "search_engine"


class Who(NamedTuple):
    """Whom an answer must name under a value of the switch."""

    fingerprint: str
    engine: str


def under(identity: Identity, settings: Mapping[str, Any], switch: KillSwitch | None) -> Identity:
    """Identity of an arm whose switch is set: that of the arm with this setting.

    So what ``mail-tantivy`` answers under ``fts5`` is signed as what ``mail-fts5`` answers, where
    the two arms differ in nothing else.
    """
    if switch is None or settings[SETTING] == switch:
        return identity
    changed = of_json({**settings, SETTING: switch.value})
    return replace(identity, manifest=replace(identity.manifest, settings_sha256=changed))


@dataclass(frozen=True, slots=True)
class Switched:
    """A surface that asks for its switch at every query; the index stays open."""

    base: Surface
    settings: Mapping[str, Any]
    """Of the arm."""
    read: Callable[[], KillSwitch | None]
    """Gives the switch as it is now; None leaves the arm's own."""
    _made: dict[KillSwitch | None, Surface] = field(default_factory=dict)

    @property
    def identity(self) -> Identity:
        """Who answers now."""
        return self.now.identity

    @property
    def now(self) -> Surface:
        """The surface as the switch is now."""
        switch = self.read()
        if switch not in self._made:
            self._made[switch] = self._under(switch)
        return self._made[switch]

    def seen_by(self, scope: Scope | None) -> Surface:
        """Give the surface as one caller sees it now; None is the operator, who sees all."""
        return self.now.seen_by(scope)

    def by_default(self, scope: Scope | None) -> Switched:
        """Answer whoever names no one as ``scope`` says; None as an operator."""
        return Switched(self.base.seen_by(scope), self.settings, self.read)

    @property
    def scope(self) -> Scope | None:
        """Whom it answers for where a call names no one."""
        return self.base.scope

    def search(self, args: Arguments) -> SearchResult:
        """Answer a call, all of it under one value of the switch."""
        return self.now.search(args)

    def who(self, switch: KillSwitch) -> Who:
        """Name who answers a query in the arm's own mode under ``switch``, unless degraded."""
        signed = under(self.base.identity, self.settings, switch).manifest.fingerprint
        return Who(signed, engine_chain(self.base.mode, switch, DocKind.MESSAGE)[0].value)

    def _under(self, switch: KillSwitch | None) -> Surface:
        if switch is None:
            return self.base
        return replace(
            self.base,
            service=replace(self.base.service, switch=switch),
            identity=under(self.base.identity, self.settings, switch),
        )
