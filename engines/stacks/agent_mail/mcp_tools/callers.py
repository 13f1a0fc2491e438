"""Who calls the tools: a token is an operator's or a viewer's, as a file says."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from contextvars import ContextVar
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from engines.stacks.agent_mail.contract.directory import Names
from engines.stacks.agent_mail.pipeline.scope import Scope, Visibility, viewer
from harness.core.errors import BadFile, UnknownName
from harness.core.formats import toml_file
from harness.core.reading import Malformed

HINT = (
    "Write a table [viewers.NAME] for each, with agent, projects, contacts and token_sha256,"
    " the SHA-256 of the viewer's token in hexadecimal digits"
)
CALLER: ContextVar[Scope | None] = ContextVar("caller")
"""Whom the current request is answered for, None an operator; unset outside of HTTP."""


class Listed(BaseModel):
    """One viewer of the file."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    agent: str = Field(min_length=1)
    projects: list[str] = Field(default_factory=list)
    """Slugs of the projects whose messages it may read."""
    contacts: list[str] = Field(default_factory=list)
    """Agents whose messages in other projects it may know of."""
    token_sha256: str = Field(pattern=r"^[0-9a-f]{64}$")


class _File(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    viewers: dict[str, Listed] = Field(min_length=1)


def digest(token: str) -> str:
    """Give the SHA-256 of a token: files and memory hold no token itself."""
    return hashlib.sha256(token.encode()).hexdigest()


def read(path: Path) -> Mapping[str, Listed]:
    """Read the viewers of a file, by name.

    Raises:
        BadFile: it cannot be read, or two viewers have one token.
    """
    try:
        found = _File.model_validate(toml_file(path)).viewers
    except (OSError, Malformed, ValidationError) as exc:
        raise BadFile(path, f"cannot be read ({exc})", HINT) from exc
    if len({one.token_sha256 for one in found.values()}) < len(found):
        raise BadFile(path, "gives two viewers one token", "Give each viewer a token of its own")
    return found


def scope_of(listed: Listed, names: Names) -> Scope:
    """Make the scope of a viewer.

    Raises:
        UnknownName: the project of one of its slugs is unknown.
    """
    projects = {slug: names.project_called(slug) for slug in listed.projects}
    for slug, known in projects.items():
        if known is None:
            raise UnknownName("project of a viewer", slug, [])
    ids = frozenset(known for known in projects.values() if known is not None)
    return viewer(listed.agent, ids, frozenset(listed.contacts))


def nobody() -> Scope:
    """Show nothing: for a request that names no one, on a server that has viewers."""
    return Scope("nobody", lambda _: Visibility.DENY)
