"""What the tools take and give: dates, hints, parameters, and the schema of results."""

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from enum import StrEnum
from typing import Annotated, Any, ClassVar, NamedTuple, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainValidator
from pydantic_core import PydanticKnownError

from harness_engines.mcp_server import ToolArguments
from harness_engines.stacks.agent_mail import contract
from harness_engines.stacks.agent_mail.contract import Importance


class ResultModel(BaseModel):
    """Base of results and of all parts of one."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    def written(self) -> dict[str, Any]:
        """Return what is there; a part that is absent has no key."""
        whole: dict[str, Any] = self.model_dump(mode="json", by_alias=True)
        return {key: value for key, value in whole.items() if value is not None}


class MessageShown(ResultModel):
    """A message found."""

    id: int
    subject: str
    importance: str
    ack_required: bool
    created_ts: int = Field(description="Microseconds since 1970 UTC.")
    thread_id: str
    sender: str = Field(validation_alias="from", serialization_alias="from")
    project_id: int
    score: float = Field(description="In [0, 1], higher is better; ordered by it, then by id.")
    raw_score: float = Field(description="The engine's own score.")
    redacted: bool = Field(description="Whether the subject is hidden from the caller.")


class EntityShown(ResultModel):
    """An agent or a project found; of some no more than the name is known."""

    kind: str
    id: int
    project_id: int
    name: str
    slug: str | None = None
    description: str = ""
    program: str = ""
    model: str = ""
    score: float
    raw_score: float


class HintApplied(ResultModel):
    """A hint that was taken out of the text."""

    field: str
    value: str
    typed: str
    applied: bool = Field(description="False where a parameter or an earlier hint went before it.")


class HintUnread(ResultModel):
    """A hint whose value cannot be read; it was searched for as words."""

    typed: str
    reason: str


class DidYouMean(ResultModel):
    """A field that there is not; it was searched for as words."""

    typed: str
    suggestion: str


class QueryAssistance(ResultModel):
    """How the text was understood; absent where there is nothing to say."""

    text: str = Field(description="What was searched for, without hints.")
    hints: list[HintApplied]
    unread: list[HintUnread]
    did_you_mean: list[DidYouMean]


class Suggestion(ResultModel):
    """One way to find more."""

    kind: str
    detail: str


class ZeroResultGuidance(ResultModel):
    """What to try where nothing was found, told from the query alone."""

    suggestions: list[Suggestion]


class SearchDiagnostics(ResultModel):
    """Present only where the answer is not what was requested, or nothing was queried."""

    degraded: bool = Field(description="False for a query that says nothing.")
    signals: list[str] = Field(description="What happened, for programs to branch on.")
    fallback_mode: str | None = Field(None, description="Engine that served instead of another.")
    requested_mode: str | None = None
    actual_mode: str | None = None
    cursor_invalidated: bool = False
    reason: str = Field(description="The same in words.")
    remediation_hints: list[str]


class SubjectShown(ResultModel):
    """The subject of a message."""

    id: int
    subject: str


class SubjectsFound(ResultModel):
    """Subjects in which a word begins so, the shortest first."""

    subjects: list[SubjectShown]
    reason: str | None = Field(default=None, description="Why none could be looked up.")


class Changed(ResultModel):
    """A message that was changed."""

    id: int
    generation: int = Field(description="How often messages have changed, this time included.")


class ServedBy(ResultModel):
    """Who answered. ``fingerprint`` is the arm's own only where nothing was degraded."""

    arm: str
    fingerprint: str
    documents: int
    corpus_sha256: str
    engine: str
    mode: str


class SearchResult(ResultModel):
    """One page of messages and what there is to say of it."""

    result: list[MessageShown]
    entities: list[EntityShown] | None = Field(
        default=None, description="Agents or projects, where doc_kind asks for them."
    )
    assistance: QueryAssistance | None = None
    guidance: ZeroResultGuidance | None = None
    explain: contract.QueryExplain | None = None
    next_cursor: str | None = None
    diagnostics: SearchDiagnostics | None = None
    served_by: ServedBy


class Signal(StrEnum):
    """What may have happened, in the order in which it is listed."""

    INVALID_QUERY = "invalid_query"
    SEARCH_FAILED = "search_failed"
    MODE_DOWNGRADED = "mode_downgraded"
    ENGINE_FALLBACK = "engine_fallback"
    LIKE_FALLBACK = "like_fallback"
    INDEX_STALE = "index_stale"
    CURSOR_INVALIDATED = "cursor_invalidated"


NOTHING_RAN = "empty"
"""``explain.method`` of a query that no engine answered."""

HINTS = {
    Signal.INVALID_QUERY: "give a text or a filter",
    Signal.SEARCH_FAILED: "build the index again",
    Signal.MODE_DOWNGRADED: "see the reason; the mode needs a model, an index, or the kill switch",
    Signal.ENGINE_FALLBACK: "see the reason; build the index again where it is broken",
    Signal.LIKE_FALLBACK: "write words of letters or digits; the text could not be matched",
    Signal.INDEX_STALE: "ask again: the index is catching up; see the reason where it stays so",
    Signal.CURSOR_INVALIDATED: "begin at the first page; the cursor is of another engine or query",
}


def diagnose(search_response: contract.SearchResponse) -> SearchDiagnostics | None:
    """Return what is degraded; None where the tier that is meant to answer did, and fully."""
    explain = search_response.explain
    fell = search_response.fell_back
    seen = {
        Signal.INVALID_QUERY: explain.method == NOTHING_RAN and not fell,
        Signal.SEARCH_FAILED: explain.method == NOTHING_RAN and fell,
        Signal.MODE_DOWNGRADED: explain.mode_downgraded,
        Signal.ENGINE_FALLBACK: fell,
        Signal.LIKE_FALLBACK: explain.used_like_fallback,
        Signal.INDEX_STALE: search_response.stale,
        Signal.CURSOR_INVALIDATED: explain.cursor_invalidated,
    }
    signals = [signal for signal, on in seen.items() if on]
    if not signals:
        return None
    return told(
        signals,
        explain.note or ", ".join(signals).replace("_", " "),
        degraded=signals != [Signal.INVALID_QUERY],
        fallback_mode=search_response.served_by if fell or explain.mode_downgraded else None,
        requested_mode=str(explain.requested_mode),
        actual_mode=str(explain.actual_mode),
        cursor_invalidated=explain.cursor_invalidated,
    )


def told(signals: Sequence[Signal], reason: str, **more: Any) -> SearchDiagnostics:  # noqa: ANN401  fields
    """Describe signals with their hints."""
    hints = [HINTS[signal] for signal in signals]
    named = [signal.value for signal in signals]
    return SearchDiagnostics(signals=named, reason=reason, remediation_hints=hints, **more)


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
DAY_US = 24 * 60 * 60 * 1_000_000
DAY = "YYYY-MM-DD"


def earliest(text: str) -> int:
    """Microsecond of an instant of ISO 8601, the first of a day; UTC where it has no zone."""
    try:
        read = datetime.fromisoformat(text.strip().upper())
    except ValueError as exc:
        raise ValueError(f"{text!r} is not a date; write {DAY} or {DAY}THH:MM:SSZ") from exc
    return (read.replace(tzinfo=read.tzinfo or UTC) - _EPOCH) // _MICROSECOND


def latest(text: str) -> int:
    """Microsecond of an instant, the last of a day, which counts to its end."""
    is_day = len(text.strip()) <= len(DAY)
    return earliest(text) + (DAY_US - 1 if is_day else 0)


def written(microseconds: int) -> str:
    """Write an instant so that ``earliest`` and ``latest`` give it back."""
    return (_EPOCH + microseconds * _MICROSECOND).isoformat().replace("+00:00", "Z")


ALIKE = 0.7
"""Likeness from which an unknown field is taken for a slip of the pen."""

_PIECE = re.compile(
    r'"[^"]*"|(?<!\S)(?P<field>[A-Za-z_]+):(?P<value>"[^"]+"|[^\s"]+)(?!\S)', re.ASCII
)


class HintedFilter(NamedTuple):
    """What a hint filters by."""

    names: tuple[str, ...]
    """The first is the field that is told."""
    filter: str
    read: Callable[[str], Any] | None
    """Reads a value; without it the value is looked up."""


def read_hints(
    text: str, takes: Callable[[HintedFilter, str, str], HintApplied | HintUnread]
) -> QueryAssistance:
    """Take hints out of ``text``; slips, and what ``takes`` cannot read, are left in as words.

    ``takes`` gets the hint, the value without quotation marks, and how it was typed.
    """
    taken: list[HintApplied] = []
    unread: list[HintUnread] = []
    slips: list[DidYouMean] = []

    def without(piece: re.Match[str]) -> str:
        name, typed, value = piece["field"], piece[0], piece["value"]
        if name is None:
            return typed
        hint = HINT_OF.get(name.lower())
        if hint is None:
            fields = [one.names[0] for one in HINTED]
            meant = get_close_matches(name.lower(), fields, n=1, cutoff=ALIKE)
            slips.extend(DidYouMean(typed=typed, suggestion=f"{one}:{value}") for one in meant)
            return typed
        said = takes(hint, value.strip('"'), typed)
        if isinstance(said, HintUnread):
            unread.append(said)
            return typed
        taken.append(said)
        return ""

    left = _PIECE.sub(without, text)
    left = " ".join(left.split()) if taken else text
    return QueryAssistance(text=left, hints=taken, unread=unread, did_you_mean=slips)


LIMIT_DEFAULT = 20
MAX_OFFSET = 5_000
"""Rows that may be skipped; further on, a cursor costs less and misses nothing."""
SUBJECTS_DEFAULT, MAX_SUBJECTS = 10, 50
EVERY_PROJECT = "*"
PROJECT = Field(description="Slug of the project to search, or * for all that the caller may see.")

ARGUMENT_ALIASES: Mapping[str, tuple[str, ...]] = {
    "sender": ("from_agent", "sender_name"),
    "recipient": ("recipient_name",),
    "date_start": ("date_from", "after", "since"),
    "date_end": ("date_to", "before", "until"),
}


Value = TypeVar("Value")
WORD = BeforeValidator(
    lambda said: (said.strip().lower() or None) if isinstance(said, str) else said
)
"""Declares one of some words, in any case; blank is as good as absent."""


def _read_by(how: Callable[[str], Value]) -> PlainValidator:
    """Declare a text that ``how`` reads, or refuses by a ``ValueError``."""

    def read(value: object) -> Value:
        if not isinstance(value, str):
            raise PydanticKnownError("string_type")
        return how(value)

    return PlainValidator(read, json_schema_input_type=str)


def _if_any(how: Callable[[str], Value]) -> PlainValidator:
    """Declare a text that ``how`` reads; a blank one is None."""
    return _read_by(lambda text: how(text) if text.strip() else None)


def listed(text: str) -> tuple[str, ...]:
    """Read words with commas between."""
    return tuple(name for one in text.split(",") if (name := one.strip()))


def levels(text: str) -> tuple[Importance, ...]:
    """Read levels of importance with commas between, each once."""
    said, known = listed(text.lower()), [level.value for level in Importance]
    if strange := [word for word in said if word not in known]:
        raise ValueError(f"{strange[0]!r} is not one of {', '.join(known)}")
    return tuple(map(Importance, dict.fromkeys(said)))


HINTED = (
    HintedFilter(("from", "from_agent", "sender", "sender_name"), "sender_name", str),
    HintedFilter(("thread", "thread_id"), "thread_id", str),
    HintedFilter(("project", "project_key", "project_slug", "proj"), "project_id", None),
    HintedFilter(("before", "until", "date_end", "date_to"), "max_ts", latest),
    HintedFilter(("after", "since", "date_start", "date_from"), "min_ts", earliest),
    HintedFilter(("importance", "priority"), "importance", levels),
)
HINT_OF = {name: hint for hint in HINTED for name in hint.names}


class Arguments(ToolArguments):
    """What both tools take; an empty text is as good as absent."""

    aliases: ClassVar[Mapping[str, tuple[str, ...]]] = ARGUMENT_ALIASES

    query: str = Field(
        description="What to search for. May hold hints: from:, thread:, project:, before:,"
        " after:, importance:."
    )
    doc_kind: Annotated[contract.DocKind | None, WORD] = Field(
        None, description="message (default), agent or project."
    )
    limit: int = Field(LIMIT_DEFAULT, description="Hits on a page, held within 1..1000.")
    offset: int = Field(
        0, ge=0, le=MAX_OFFSET, description="Messages to skip; not together with cursor."
    )
    ranking: Annotated[contract.RankingMode | None, WORD] = Field(
        None, description="relevance (default) or recency."
    )
    sender: str = Field("", description="Exact name of the agent that wrote it.")
    importance: Annotated[tuple[Importance, ...] | None, _if_any(levels)] = Field(
        None, description="Any of low,normal,high,urgent, commas between."
    )
    thread_id: str = Field("", description="Exact thread.")
    date_start: Annotated[int | None, _if_any(earliest)] = Field(
        None, description="Not sent before: a day or an instant, UTC if no zone."
    )
    date_end: Annotated[int | None, _if_any(latest)] = Field(
        None, description="Not sent after; a day counts to its last microsecond, UTC."
    )
    explain: bool = Field(default=False, description="Say how the query was served.")
    cursor: str = Field("", description="next_cursor of the page before.")
    mode: Annotated[contract.SearchMode | None, WORD] = Field(
        None, description="lexical (default), semantic, hybrid or hybrid_rerank."
    )
    recipient: str = Field("", description="Exact name of an agent in to, cc or bcc.")
    agent_name: str = Field("", description="Exact name of an agent that wrote or received it.")
    direction: Annotated[contract.Direction | None, WORD] = Field(
        None, description="inbox or outbox, of agent_name."
    )
    ack_required: bool | None = Field(None, description="Whether an acknowledgement is required.")
    min_score: float | None = Field(
        None, allow_inf_nan=False, description="Least score in [0, 1] of a message shown."
    )
    rerank_top_k: int | None = Field(
        None, description="Candidates to rerank, held within 10..1000; 100 if absent."
    )
    rrf_k: int | None = Field(
        None, description="Constant of rank fusion, held within 1..1000; 60 if absent."
    )


class InProject(Arguments):
    """Parameters of ``search_messages``."""

    project_key: str = PROJECT


class InProduct(Arguments):
    """Parameters of ``search_messages_product``."""

    aliases: ClassVar[Mapping[str, tuple[str, ...]]] = {
        **ARGUMENT_ALIASES,
        "project": ("project_key_filter", "project_slug", "proj"),
    }

    product_key: str = Field(description="Name of the product whose projects are searched.")
    project: str = Field("", description="Slug of one of the product's projects; it wins.")


class Beginning(ToolArguments):
    """Parameters of ``complete_subject``."""

    project_key: str = PROJECT
    prefix: str = Field(
        description="What was typed so far. The last word may be a beginning, of two characters or"
        " more; words before it stand in the subject."
    )
    limit: int = Field(
        SUBJECTS_DEFAULT, ge=1, le=MAX_SUBJECTS, description="Subjects at most, 1 to 50."
    )


Recipients = Annotated[tuple[str, ...], _read_by(listed)]
Level = Annotated[Importance, WORD]


class InsertMessage(ToolArguments):
    """Parameters of ``insert_message``."""

    project_key: str = Field(description="Slug of the project that the message belongs to.")
    sender: str = Field(min_length=1, description="Exact name of the agent that writes it.")
    subject: str = Field("", description="Its subject.")
    body: str = Field("", description="Its text.")
    recipients: Recipients = Field((), description="Names of agents, commas between.")
    thread_id: str = Field("", description="Its thread.")
    importance: Level = Field(Importance.NORMAL, description="low, normal, high or urgent.")
    ack_required: bool = Field(default=False, description="Whether it asks to be acknowledged.")
    created_ts: int | None = Field(None, description="Microseconds since 1970 UTC; now if absent.")


class DeleteMessage(ToolArguments):
    """Parameters of ``delete_message``."""

    id: int = Field(description="The message.")


class EditMessage(DeleteMessage):
    """Parameters of ``edit_message``; what is absent stays as it is."""

    subject: str | None = Field(None, description="A new subject.")
    body: str | None = Field(None, description="A new text.")
    recipients: Recipients | None = Field(None, description="New recipients, commas between.")
    thread_id: str | None = Field(None, description="A new thread.")
    importance: Level | None = Field(None, description="low, normal, high or urgent.")
    ack_required: bool | None = Field(None, description="Whether it asks to be acknowledged.")
