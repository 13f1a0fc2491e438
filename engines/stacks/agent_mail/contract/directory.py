"""Who writes and where: the agents and projects that message search knows beside messages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Agent:
    """An agent of one project. One that is known from messages alone has a name and no more."""

    agent_id: int
    project_id: int
    name: str
    program: str = ""
    """What runs it."""
    model: str = ""
    task_description: str = ""


@dataclass(frozen=True, slots=True)
class Project:
    """A project: ``slug`` names it to programs, ``name`` and ``description`` to people."""

    project_id: int
    slug: str
    name: str = ""
    description: str = ""


Entity = Agent | Project


class Names(Protocol):
    """Names of projects and products; a ``MessageStore`` is one."""

    def project_called(self, slug: str) -> int | None: ...
    def product_called(self, name: str) -> int | None: ...
    def projects_of_product(self, product_id: int) -> frozenset[int]: ...
