"""Tools that change messages, for operators alone: what they take, and what they give back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from engines.contract.errors import InvalidQuery
from engines.stacks.agent_mail.contract.query import Importance
from engines.stacks.agent_mail.ingest import Draft, Edit, Ingest
from engines.stacks.agent_mail.ingest import Written as Done
from engines.stacks.agent_mail.mcp_tools.question import project_called
from engines.stacks.agent_mail.mcp_tools.refused import Code, Refused
from engines.stacks.agent_mail.mcp_tools.results import ResultModel
from engines.stacks.agent_mail.mcp_tools.search import Surface


class InsertMessage(BaseModel):
    """Parameters of ``insert_message``."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    project_key: str = Field(description="Slug of the project that the message belongs to.")
    sender: str = Field(min_length=1, description="Exact name of the agent that writes it.")
    subject: str = Field("", description="Its subject.")
    body: str = Field("", description="Its text.")
    recipients: str = Field("", description="Names of agents, commas between.")
    thread_id: str = Field("", description="Its thread.")
    importance: str = Field("normal", description="low, normal, high or urgent.")
    ack_required: bool = Field(default=False, description="Whether it asks to be acknowledged.")
    created_ts: int | None = Field(None, description="Microseconds since 1970 UTC; now if absent.")


class EditMessage(BaseModel):
    """Parameters of ``edit_message``; what is absent stays as it is."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: int = Field(description="The message.")
    subject: str | None = Field(None, description="A new subject.")
    body: str | None = Field(None, description="A new text.")
    recipients: str | None = Field(None, description="New recipients, commas between.")
    thread_id: str | None = Field(None, description="A new thread.")
    importance: str | None = Field(None, description="low, normal, high or urgent.")
    ack_required: bool | None = Field(None, description="Whether it asks to be acknowledged.")


class DeleteMessage(BaseModel):
    """Parameters of ``delete_message``."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: int = Field(description="The message.")


class Changed(ResultModel):
    """A message that was changed."""

    id: int
    generation: int = Field(description="How often messages have changed, this time included.")

    def written(self) -> dict[str, Any]:
        """Write what is there."""
        return self.model_dump(mode="json")


@dataclass(frozen=True, slots=True)
class Changes:
    """Changes messages for whoever sees all of them.

    Each method raises ``Refused`` for a viewer, and where the arguments cannot be meant.
    """

    box: Ingest

    def insert(self, surface: Surface, args: InsertMessage) -> Changed:
        """Write a new message; every search that begins after the answer finds it."""
        _check_operator(surface)
        draft = Draft(
            project_called(args.project_key, surface.directory),
            args.subject,
            args.body,
            args.sender,
            _names(args.recipients),
            args.thread_id,
            _importance(args.importance),
            args.ack_required,
            args.created_ts,
        )
        return _changed(self.box.insert(draft))

    def edit(self, surface: Surface, args: EditMessage) -> Changed:
        """Write parts of a message anew."""
        _check_operator(surface)
        new = args.model_dump(exclude={"id"}, exclude_none=True)
        if args.recipients is not None:
            new["recipients"] = _names(args.recipients)
        if args.importance is not None:
            new["importance"] = _importance(args.importance)
        try:
            return _changed(self.box.edit(args.id, **Edit(**new)))  # type: ignore[typeddict-item]
        except InvalidQuery as exc:
            raise Refused(str(exc), Code.NOT_FOUND) from exc

    def delete(self, surface: Surface, args: DeleteMessage) -> Changed:
        """Remove a message."""
        _check_operator(surface)
        try:
            return _changed(self.box.delete(args.id))
        except InvalidQuery as exc:
            raise Refused(str(exc), Code.NOT_FOUND) from exc


def _check_operator(surface: Surface) -> None:
    if surface.scope is not None:
        raise Refused("only an operator may change messages", Code.FORBIDDEN)


def _names(said: str) -> tuple[str, ...]:
    return tuple(name for one in said.split(",") if (name := one.strip()))


def _importance(said: str) -> Importance:
    try:
        return Importance(said)
    except ValueError as exc:
        known = ", ".join(level.value for level in Importance)
        raise Refused(f"importance is {said!r}, give one of {known}") from exc


def _changed(done: Done) -> Changed:
    return Changed(id=done.message_ids[0], generation=done.generation)
