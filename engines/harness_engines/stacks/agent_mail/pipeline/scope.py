"""Who may see what: a policy's verdict on each message, agent and project (ADR-003, D8)."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache, lru_cache
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from harness.core.errors import BadFile, UnknownName
from harness.core.formats import toml_file
from harness.core.reading import Malformed
from harness_engines.stacks.agent_mail.contract import Agent, Entity, Message, Names

REDACTED = "[redacted]"
LOG = logging.getLogger("engines.mail.scope")


class Visibility(StrEnum):
    """What a viewer may do with a message."""

    ALLOW = "allow"
    REDACT = "redact"
    DENY = "deny"


@dataclass(frozen=True, slots=True)
class Scope:
    """A policy by name, and its verdict on each message.

    Two scopes that are equal share one view, so a verdict must not change while its scope is used:
    make another scope instead.
    """

    policy: str
    verdict: Callable[[Message], Visibility]
    entity: Callable[[Entity], Visibility] = lambda _: Visibility.DENY
    """Verdict on what is registered of an agent or a project. Denied ones are still known by name
    where a visible message names them."""
    audited: bool = False
    """Whether an operator looks through this policy. Then it is applied to what the whole index
    found, and ``denied_count`` tells what it hid, which a viewer must never learn."""
    whole: bool = False
    """Whether every message is allowed, so that no verdict is needed."""

    def sees(self, message: Message) -> Visibility:
        """Return the verdict; whatever is not ``ALLOW`` or ``REDACT`` itself is ``DENY``."""
        return self._said(self.verdict, message)

    def knows(self, entity: Entity) -> bool:
        """Return whether all that is registered of an agent or a project may be shown."""
        return self._said(self.entity, entity) is Visibility.ALLOW

    def _said(self, verdict: Callable[..., object], about: Message | Entity) -> Visibility:
        try:
            said = verdict(about)
        except Exception as exc:  # noqa: BLE001  a policy that fails denies
            _told(self.policy, type(exc).__name__)
            return Visibility.DENY
        if said is Visibility.ALLOW or said is Visibility.REDACT:
            return said
        return Visibility.DENY


@lru_cache(maxsize=256)
def _told(policy: str, kind: str) -> None:
    """Log a policy's failure once, not at every message."""
    LOG.warning("policy %s failed (%s): what it failed on is denied", policy, kind)


@dataclass(frozen=True, slots=True)
class Viewer:
    """The rules for one agent; equal rules are one viewer."""

    agent: str
    projects: frozenset[int]
    contacts: frozenset[str]

    def __call__(self, about: Message | Entity) -> Visibility:
        """Allow what is its own or of its projects; redact messages of contacts elsewhere."""
        contact = False
        if isinstance(about, Message):
            own = self.agent in {about.sender_name, *about.recipients}
            contact = about.sender_name in self.contacts
        else:
            own = isinstance(about, Agent) and about.name == self.agent
        if own or about.project_id in self.projects:
            return Visibility.ALLOW
        return Visibility.REDACT if contact else Visibility.DENY


@cache
def unrestricted() -> Scope:
    """Show everything: an operator's view."""
    return Scope("unrestricted", lambda _: Visibility.ALLOW, audited=True, whole=True)


def viewer(agent: str, projects: frozenset[int], contacts: frozenset[str]) -> Scope:
    """Show an agent its own messages and its projects', and of its contacts that they wrote."""
    rules = Viewer(agent, projects, contacts)
    return Scope(f"viewer:{agent}", rules, rules)


HINT = (
    "Write a table [viewers.NAME] for each, with agent, projects, contacts and token_sha256,"
    " the SHA-256 of the viewer's token in hexadecimal digits"
)


class ListedViewer(BaseModel):
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

    viewers: dict[str, ListedViewer] = Field(min_length=1)


def read_callers(path: Path) -> Mapping[str, ListedViewer]:
    """Read the viewers of a file, by name."""
    try:
        found = _File.model_validate(toml_file(path)).viewers
    except (OSError, Malformed, ValidationError) as exc:
        raise BadFile(path, f"cannot be read ({exc})", HINT) from exc
    if len({one.token_sha256 for one in found.values()}) < len(found):
        raise BadFile(path, "gives two viewers one token", "Give each viewer a token of its own")
    return found


def scope_of(listed: ListedViewer, names: Names) -> Scope:
    """Make the scope of a viewer."""
    projects = {slug: names.project_called(slug) for slug in listed.projects}
    for slug, known in projects.items():
        if known is None:
            raise UnknownName("project of a viewer", slug, [])
    ids = frozenset(known for known in projects.values() if known is not None)
    return viewer(listed.agent, ids, frozenset(listed.contacts))


def nobody() -> Scope:
    """Show nothing: for a request that names no one, on a server that has viewers."""
    return Scope("nobody", lambda _: Visibility.DENY)
