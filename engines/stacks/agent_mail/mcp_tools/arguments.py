"""The parameters of the tools, their other names, and what they default to (section 6)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from inspect import Parameter, Signature
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from engines.stacks.agent_mail.mcp_tools import dates
from engines.stacks.agent_mail.mcp_tools.refused import Refused

LIMIT_DEFAULT = 20
MAX_OFFSET = 5_000
"""Rows that may be skipped; further on, a cursor costs less and misses nothing."""
EVERY_PROJECT = "*"

Text = Annotated[str, BeforeValidator(lambda given: "" if given is None else given)]
"""A text that may be left out: empty and null are as good as absent."""

ALIASES: Mapping[str, tuple[str, ...]] = {
    "sender": ("from_agent", "sender_name"),
    "recipient": ("recipient_name",),
    "date_start": ("date_from", "after", "since"),
    "date_end": ("date_to", "before", "until"),
    "project": ("project_key_filter", "project_slug", "proj"),
}
_SAME: Mapping[str, Callable[[str], object]] = {
    "date_start": dates.earliest,
    "date_end": dates.latest,
}
"""Two names of one parameter may be given in two spellings of one value."""


class Arguments(BaseModel):
    """What both tools take."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    query: str = Field(
        description="What to search for. May hold hints: from:, thread:, project:, before:,"
        " after:, importance:."
    )
    limit: int = Field(LIMIT_DEFAULT, description="Messages on a page, held within 1..1000.")
    offset: int = Field(
        0, ge=0, le=MAX_OFFSET, description="Messages to skip; not together with cursor."
    )
    ranking: Text = Field("", description="relevance (default) or recency.")
    sender: Text = Field("", description="Exact name of the agent that wrote it.")
    importance: Text = Field("", description="Any of low,normal,high,urgent, commas between.")
    thread_id: Text = Field("", description="Exact thread.")
    date_start: Text = Field(
        "", description="Not sent before: a day or an instant, UTC if no zone."
    )
    date_end: Text = Field(
        "", description="Not sent after; a day counts to its last microsecond, UTC."
    )
    explain: bool = Field(default=False, description="Say how the query was served.")
    cursor: Text = Field("", description="next_cursor of the page before.")
    mode: Text = Field(
        "", description="lexical, semantic, hybrid or hybrid_rerank; the server's own if absent."
    )
    recipient: Text = Field("", description="Exact name of an agent in to, cc or bcc.")
    agent_name: Text = Field("", description="Exact name of an agent that wrote or received it.")
    direction: Text = Field("", description="inbox or outbox, of agent_name.")
    ack_required: bool | None = Field(None, description="Whether an acknowledgement is required.")
    min_score: float | None = Field(
        None, allow_inf_nan=False, description="Least score in [0, 1] of a message shown."
    )


class InProject(Arguments):
    """Parameters of ``search_messages``."""

    project_key: str = Field(
        description="Slug of the project to search, or * for all that the caller may see."
    )


class InProduct(Arguments):
    """Parameters of ``search_messages_product``."""

    product_key: str = Field(description="Name of the product whose projects are searched.")
    project: Text = Field("", description="Slug of one of the product's projects.")


Given = TypeVar("Given", bound=BaseModel)


def resolved(kind: type[Given], given: Mapping[str, Any]) -> Given:
    """Read arguments that may come under several names.

    Raises:
        Refused: two names of one parameter are given with values that differ.
    """
    merged = dict(given)
    for name, others in ALIASES.items():
        said = {key: merged.pop(key) for key in (name, *others) if merged.get(key)}
        for other in others:
            merged.pop(other, None)
        if not said or name not in kind.model_fields:
            continue
        key, value = next(iter(said.items()))
        same = _SAME.get(name, str)
        for other, twice in said.items():
            if twice != value and _differ(same, value, twice):
                raise Refused(
                    f"{key} is {value!r} and {other} is {twice!r}; they are names of one"
                    " parameter, give one"
                )
        merged[name] = value
    return kind(**merged)


def signature(kind: type[BaseModel], gives: object) -> Signature:
    """Write a tool's parameters, other names included, as a function would have them."""
    parameters: list[Parameter] = []
    annotated: Any = Annotated
    for name, field in kind.model_fields.items():
        about = annotated[(field.annotation, *field.metadata, Field(description=field.description))]
        default = Parameter.empty if field.is_required() else field.default
        parameters.append(
            Parameter(name, Parameter.KEYWORD_ONLY, annotation=about, default=default)
        )
        for other in ALIASES.get(name, ()):
            said = annotated[Text, Field(description=f"Another name of {name}.")]
            parameters.append(Parameter(other, Parameter.KEYWORD_ONLY, annotation=said, default=""))
    return Signature(parameters, return_annotation=gives)


def _differ(same: Callable[[str], object], value: str, twice: str) -> bool:
    try:
        return same(value) != same(twice)
    except ValueError:
        return True
