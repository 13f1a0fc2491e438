"""Tools that change messages, and checks of their arguments."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.tools import Tool
from mcp.shared.exceptions import MCPError
from mcp.types import INVALID_PARAMS
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails

from engines.contract import InvalidQuery
from engines.stacks.agent_mail.contract import Importance
from engines.stacks.agent_mail.ingest import Draft, Edit, Ingest
from engines.stacks.agent_mail.ingest import Written as Done
from engines.stacks.agent_mail.mcp_tools.arguments import Code, Refused
from engines.stacks.agent_mail.mcp_tools.results import ResultModel
from engines.stacks.agent_mail.mcp_tools.search import Surface, project_called
from harness.core.errors import UnknownName
from harness.core.mcp_pipes import pipes

LONGEST = 60
"""Characters shown of a value that cannot be meant."""
KINDS = {
    "int": "a whole number",
    "string_too_short": "at least a character",
    "bool": "true or false",
    "float": "a number",
    "finite": "a finite number",
    "string": "a text",
}
"""What is meant, by how pydantic begins the type of an error."""


class CheckedTool(Tool):
    """A tool for which a null is an absent argument, and a wrong one an error with a code."""

    async def run(
        self,
        arguments: dict[str, Any],
        context: Context[Any, Any],
        convert_result: bool = False,  # noqa: FBT001, FBT002  the base's
    ) -> Any:  # noqa: ANN401  the base's
        """Check the arguments, and run the tool.

        Raises:
            ToolError: an argument is missing, unknown, or of another kind; or the tool refuses. It
                begins with the code.
        """
        given = {name: value for name, value in arguments.items() if value is not None}
        try:
            self.fn_metadata.validate_arguments(given)
        except ValidationError as exc:
            refused = Refused("; ".join(_told(exc.errors(), self.parameters["properties"])))
            raise ToolError(str(refused)) from exc
        try:
            return await super().run(given, context, convert_result)
        except ToolError as exc:
            if isinstance(exc.__cause__, ToolError):
                raise exc.__cause__ from exc.__cause__.__cause__
            raise


class ToolServer(MCPServer[Any]):
    """A server that offers tools and nothing else, whatever the SDK would serve by itself.

    A stream of news would keep a place of those that are answered until its client leaves, and
    nothing is ever sent on it. The SDK logs an unknown prompt as a crash, with a long traceback.
    """

    def __init__(self, name: str, **given: Any) -> None:  # noqa: ANN401  the base's
        super().__init__(name, subscriptions=False, log_level="WARNING", **given)

    async def get_prompt(
        self,
        name: str,
        arguments: dict[str, Any] | None = None,
        context: Context[Any, Any] | None = None,
    ) -> NoReturn:
        """Refuse a prompt.

        Raises:
            MCPError: always.
        """
        del name, arguments, context
        raise MCPError(INVALID_PARAMS, "this server offers tools, and no prompts")

    async def run_stdio_async(self) -> None:
        """Speak over standard input and output until the input ends and all is answered.

        Raises:
            ExceptionGroup: as ``pipes``.
        """
        about = self._lowlevel_server.create_initialization_options()
        async with pipes() as (reads, writes):
            await self._lowlevel_server.run(reads, writes, about)


def _told(errors: Iterable[ErrorDetails], known: Mapping[str, Any]) -> list[str]:
    """Write a sentence for each argument that is wrong, in the order of the tool's parameters."""
    by_name = {str(error["loc"][0]): error for error in errors}
    return [_sentence(name, by_name[name], known) for name in sorted(by_name)]


def _sentence(name: str, error: ErrorDetails, known: Mapping[str, Any]) -> str:
    kind, about = error["type"], error.get("ctx", {})
    shown = repr(error["input"])
    shown = shown if len(shown) <= LONGEST else f"{shown[:LONGEST]}..."
    if kind == "missing":
        return f"{name} is missing, give it"
    if kind == "extra_forbidden":
        return str(UnknownName("parameter", name, sorted(known)))
    if kind == "greater_than_equal":
        return f"{name} is {shown}, give at least {about['ge']}"
    if kind == "less_than_equal":
        return f"{name} is {shown}, give at most {about['le']}"
    if kind == "literal_error":
        return f"{name} is {shown}, give {about['expected']}"
    meant = next((said for start, said in KINDS.items() if kind.startswith(start)), "")
    return f"{name} is {shown}, give {meant}" if meant else f"{name} is {shown}: {error['msg']}"


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
