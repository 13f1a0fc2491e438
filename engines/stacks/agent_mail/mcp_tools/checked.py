"""Servers of tools alone, and tools that say of a wrong argument what is meant instead."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NoReturn

from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.tools import Tool
from mcp.shared.exceptions import MCPError
from mcp.types import INVALID_PARAMS
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from engines.stacks.agent_mail.mcp_tools.refused import Refused
from harness.core.errors import UnknownName
from harness.core.serving.pipes import pipes

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
