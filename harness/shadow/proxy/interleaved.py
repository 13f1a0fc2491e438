"""How a proxy mixes the lists of two servers: a file that an operator writes."""

from __future__ import annotations

from hashlib import sha256
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from harness.core.names import fault
from harness.shadow.proxy.reading import Pointer, Unreadable, UnresolvedPointer, pointed

DIGITS = 16
"""Of the digest that stands for a session in the log."""


class _Table(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


def _arm(name: str) -> str:
    if problem := fault(name):
        raise ValueError(f"{name!r} is not the name of an arm: {problem}")
    return name


class ClickTable(_Table):
    """How a click is reported to the proxy, which answers it; neither server sees it."""

    request: str = Field(pattern=r"^[A-Z]+ /\S*$")
    """``METHOD /path``."""
    list: Pointer
    """The list's id, which its answer had in a header."""
    document: Pointer

    def of(self, request: Any) -> tuple[str, str]:  # noqa: ANN401  any JSON
        """Read the id of the list and that of the document.

        Raises:
            Unreadable: one is missing, or empty.
        """
        return _named(request, self.list), _named(request, self.document)


class InterleavedLists(_Table):
    """What the file says, whatever the servers speak."""

    arms: Annotated[tuple[Annotated[str, AfterValidator(_arm)], ...], Field(strict=False)] = Field(
        min_length=2, max_length=2
    )
    """Control and candidate, as the ledger names them."""
    seed: int = Field(ge=0)
    wait_ms: float = Field(gt=0, le=60_000)
    """How long an answer of the control waits for the candidate's, at most."""
    user: Pointer
    """What tells one user from another in all sessions; empty where nothing does."""
    page: Pointer
    """Where a request says which page it is about; empty where it cannot."""
    first_page: int = Field(ge=0)
    """What stands there for the first one; other pages are not mixed."""

    def mixes(self, request: Any) -> bool:  # noqa: ANN401  any JSON
        """Tell whether a request is about the first page."""
        try:
            return not self.page or str(pointed(request, self.page)) == str(self.first_page)
        except UnresolvedPointer:
            return True

    def user_of(self, request: Any) -> str:  # noqa: ANN401  any JSON
        """Give what stands for the user of a request, which may be a secret; empty without."""
        try:
            found = str(pointed(request, self.user)) if self.user else ""
        except UnresolvedPointer:
            found = ""
        return sha256(found.encode("utf-8", "replace")).hexdigest()[:DIGITS] if found else ""


class Interleaved(InterleavedLists):
    """The whole file, of servers over HTTP."""

    click: ClickTable


class InterleavedCalls(InterleavedLists):
    """The whole file, of MCP servers; pointers lead into the arguments of a call."""

    click_tool: str = Field(pattern=r"^[A-Za-z0-9_-]*$")
    """The tool of the proxy that takes clicks; empty where they come by no tool."""


def _named(request: Any, pointer: str) -> str:  # noqa: ANN401  any JSON
    try:
        found = pointed(request, pointer)
    except UnresolvedPointer as exc:
        raise Unreadable(f"the click: {exc}") from None
    if isinstance(found, bool) or not isinstance(found, str | int) or found == "":
        raise Unreadable(f"the click: at {pointer} is not an id")
    return str(found)
