"""Who may see what: verdicts after retrieval (ADR-003, D8), and what redaction hides."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from engines.stacks.agent_mail.contract.lifecycle import Message

REDACTED = "[redacted]"


class Visibility(StrEnum):
    """What a viewer may do with a message."""

    ALLOW = "allow"
    REDACT = "redact"
    DENY = "deny"


@dataclass(frozen=True, slots=True)
class Scope:
    """A policy by name, and its verdict on each message."""

    policy: str
    verdict: Callable[[Message], Visibility]


def unrestricted() -> Scope:
    """Show everything: an operator's view."""
    return Scope("unrestricted", lambda _: Visibility.ALLOW)


def viewer(agent: str, projects: frozenset[int], contacts: frozenset[str]) -> Scope:
    """Show an agent its own messages and its projects'; of its contacts elsewhere, that they wrote.

    A message that the agent sent or received, or that lies in one of its projects, is allowed;
    one from an approved contact in another project is redacted; any other is denied.
    """

    def verdict(message: Message) -> Visibility:
        if agent == message.sender_name or agent in message.recipients:
            return Visibility.ALLOW
        if message.project_id in projects:
            return Visibility.ALLOW
        return Visibility.REDACT if message.sender_name in contacts else Visibility.DENY

    return Scope(f"viewer:{agent}", verdict)
