"""What the tools give back (section 6.1), as the output schema that clients are shown."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from engines.stacks.agent_mail.contract.explain import QueryExplain


class ResultModel(BaseModel):
    """Base of all parts of a result."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)


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


class HintApplied(ResultModel):
    """A hint that was taken out of the text."""

    field: str
    value: str
    typed: str
    applied: bool = Field(description="False where a parameter or an earlier hint went before it.")


class DidYouMean(ResultModel):
    """A field that there is not; it was searched for as words."""

    typed: str
    suggestion: str


class QueryAssistance(ResultModel):
    """How the text was understood; absent where there is nothing to say."""

    text: str = Field(description="What was searched for, without hints.")
    hints: list[HintApplied]
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
    assistance: QueryAssistance | None = None
    guidance: ZeroResultGuidance | None = None
    explain: QueryExplain | None = None
    next_cursor: str | None = None
    diagnostics: SearchDiagnostics | None = None
    served_by: ServedBy

    def written(self) -> dict[str, Any]:
        """Write what is there; a part that is absent has no key."""
        whole: dict[str, Any] = self.model_dump(mode="json", by_alias=True)
        return {key: value for key, value in whole.items() if value is not None}
