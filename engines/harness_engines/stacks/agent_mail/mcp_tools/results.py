"""What the tools give back: output schema, reasons and signs of a wrong answer."""

from __future__ import annotations

import re
from dataclasses import replace
from enum import StrEnum
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from harness_engines.stacks.agent_mail.contract import QueryExplain, SearchResponse

_PATH = re.compile(r"(?<![\w.:/-])/(?:[^\s/:;,'\"()]+/)+([^\s/:;,'\"()]*)")


def pathless(said: str) -> str:
    """Leave of each absolute path its last part."""
    return _PATH.sub(r"\1", said)


def without_paths(explain: QueryExplain) -> QueryExplain:
    """Return the same of a query without absolute paths."""
    reason = explain.downgrade_reason
    return replace(
        explain,
        note=pathless(explain.note),
        downgrade_reason=None if reason is None else pathless(reason),
    )


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
    fallback_mode: str | None = Field(description="Engine that served in place of another.")
    requested_mode: str | None
    actual_mode: str | None
    cursor_invalidated: bool
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
    explain: QueryExplain | None = None
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
    MESSAGES_UNREAD = "messages_unread"
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
    Signal.MESSAGES_UNREAD: "messages were found and left out; repair the message store",
    Signal.CURSOR_INVALIDATED: "begin at the first page; the cursor is of another engine or query",
}


def diagnose(search_response: SearchResponse) -> SearchDiagnostics | None:
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
        Signal.MESSAGES_UNREAD: search_response.unread > 0,
        Signal.CURSOR_INVALIDATED: explain.cursor_invalidated,
    }
    signals = [signal for signal, on in seen.items() if on]
    if not signals:
        return None
    return SearchDiagnostics(
        degraded=signals != [Signal.INVALID_QUERY],
        signals=[signal.value for signal in signals],
        fallback_mode=search_response.served_by if fell or explain.mode_downgraded else None,
        requested_mode=str(explain.requested_mode),
        actual_mode=str(explain.actual_mode),
        cursor_invalidated=explain.cursor_invalidated,
        reason=explain.note or ", ".join(signals).replace("_", " "),
        remediation_hints=[HINTS[signal] for signal in signals],
    )


def failed(reason: str) -> SearchDiagnostics:
    """Describe a failure before any engine was queried."""
    return SearchDiagnostics(
        degraded=True,
        signals=[Signal.SEARCH_FAILED.value],
        fallback_mode=None,
        requested_mode=None,
        actual_mode=None,
        cursor_invalidated=False,
        reason=reason,
        remediation_hints=[HINTS[Signal.SEARCH_FAILED]],
    )
