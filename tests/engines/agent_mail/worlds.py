"""Worlds that differ in what one viewer must not see, and in nothing else."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

from harness.core.engine import Manifest
from harness_engines.mcp_server import ToolRefusal, resolved
from harness_engines.stacks.agent_mail.contract import Message, SearchMode, SearchQuery
from harness_engines.stacks.agent_mail.mcp_tools.arguments import Beginning, InProject
from harness_engines.stacks.agent_mail.mcp_tools.search import ServedIndex, Surface
from harness_engines.stacks.agent_mail.pipeline.plan import KillSwitch
from harness_engines.stacks.agent_mail.pipeline.scope import Visibility, viewer
from tests.engines.agent_mail.whole import Whole, index, whole
from tests.make.mail.directory import Directory
from tests.make.mail.messages import AGENTS, PROJECTS, some_message, stored

EYE = viewer("AmberFox", frozenset({1}), frozenset({"TealOtter"}))
FIRST_HIDDEN, STEP = 2, 7
"""Hidden messages lie between visible ones, whose ids are 1, 8, 15 ..."""


@dataclass(frozen=True)
class World:
    """A service over visible and hidden messages."""

    mail: Whole
    identity: ServedIndex

    def answer(self, query: SearchQuery, switch: KillSwitch | None = None) -> bytes:
        """Search as the viewer; give every byte of the answer but its times."""
        found = asdict(self.mail.under(switch).ask(query, EYE))
        del found["explain"]["timing"]
        return json.dumps(found, sort_keys=True).encode()

    def tool(self, mode: SearchMode = SearchMode.LEXICAL, **given: Any) -> bytes:  # noqa: ANN401  a tool takes what it is given
        """Call the tool as the viewer."""
        mail = self.mail
        surface = Surface(mail.service, mail.store, self.identity, mode, EYE)
        try:
            found = surface.search(resolved(InProject, {"project_key": "*", **given})).written()
        except ToolRefusal as exc:
            return str(exc).encode()
        found.get("explain", {}).pop("timing", None)
        return json.dumps(found, sort_keys=True).encode()

    def completed(self, prefix: str, limit: int, project_key: str = "*") -> bytes:
        """Complete a subject as the viewer."""
        mail = self.mail
        surface = Surface(mail.service, mail.store, self.identity, SearchMode.LEXICAL, EYE)
        given = Beginning(project_key=project_key, prefix=prefix, limit=limit)
        try:
            found = surface.subjects(given).written()
        except ToolRefusal as exc:
            return str(exc).encode()
        return json.dumps(found, sort_keys=True).encode()


def messages(seed: int, hidden: int, visible: int = 40) -> tuple[Message, ...]:
    """Make the messages of a world: the visible ones depend on ``seed`` alone."""
    shown = _some(Random(seed), visible, 1, denied=False)
    secret = _some(Random(f"{seed} {hidden}"), hidden, FIRST_HIDDEN, denied=True)
    told = (replace(one, body=f"{one.body} merger deployment") for one in secret)
    return tuple(sorted((*shown, *told), key=lambda one: one.message_id))


def _some(rng: Random, count: int, first: int, *, denied: bool) -> list[Message]:
    made: list[Message] = []
    while len(made) < count:
        one = some_message(rng, first + STEP * len(made))
        if (EYE.sees(one) is Visibility.DENY) == denied:
            made.append(one)
    return made


@contextmanager
def world(folder: Path, seed: int, hidden: int) -> Iterator[World]:
    """Open a world in a new folder. All agents are registered, alike in every world."""
    folder.mkdir()
    mail = messages(seed, hidden)
    with stored(folder / "mail.db", ()) as store:
        for project in PROJECTS:
            for name in AGENTS:
                Directory(store).register(project, name, task_description="a secret task")
        store.insert_all((message, {}) for message in mail)
        index(folder, store, mail)
    made = Manifest("agent-mail", "1", len(mail), f"{hidden:064}", "s" * 64)
    with whole(folder) as opened:
        yield World(opened, ServedIndex("mail", made))
