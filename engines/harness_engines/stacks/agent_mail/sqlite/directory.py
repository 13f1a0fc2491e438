"""The agents and projects of a store: written for search, and read back for what is shown."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from harness_engines.stacks.agent_mail.contract import Agent, Entity, MailProject, Message
from harness_engines.stacks.agent_mail.sqlite.store import MessageStore, spelled

_KEEP = (
    "INSERT INTO agents (id, project_id, name, program, model, task_description, identifiers,"
    " subject_form, body_form) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_AGENTS = (
    "SELECT id, project_id, name, program, model, task_description FROM agents"
    " WHERE id IN (SELECT value FROM json_each(?))"
)
_PROJECTS = (
    "SELECT id, slug, name, description FROM projects WHERE id IN (SELECT value FROM json_each(?))"
)


@dataclass(frozen=True, slots=True)
class Directory:
    """Agents and projects by id; ids that are gone are left out."""

    store: MessageStore

    def agents(self, agent_ids: Iterable[int]) -> Mapping[int, Agent]:
        rows = self.store.read(_AGENTS, (json.dumps(tuple(agent_ids)),))
        return {row[0]: Agent(*row) for row in rows}

    def projects(self, project_ids: Iterable[int]) -> Mapping[int, MailProject]:
        rows = self.store.read(_PROJECTS, (json.dumps(tuple(project_ids)),))
        return {row[0]: MailProject(*row) for row in rows}


def copied(
    whole: Directory,
    part: Directory,
    shown: Sequence[Message],
    redacted: Collection[int],
    knows: Callable[[Entity], bool],
) -> None:
    """Write to ``part`` the agents and projects that its viewer knows, and products of these."""
    named = {(m.project_id, name) for m in shown for name in (m.sender_name, *m.recipients)}
    agents = [
        agent if knows(agent) else Agent(agent.agent_id, agent.project_id, agent.name)
        for agent in whole.agents(
            row[0] for row in whole.store.read("SELECT id FROM agents")
        ).values()
        if knows(agent) or (agent.project_id, agent.name) in named
    ]
    within = {m.project_id for m in shown} | {agent.project_id for agent in agents}
    known = {
        project.project_id: project
        if knows(project)
        else MailProject(project.project_id, project.slug)
        for project in whole.projects(
            row[0] for row in whole.store.read("SELECT id FROM projects")
        ).values()
        if knows(project) or project.project_id in within
    }
    for project in known.values():
        part.store.add_project(project.project_id, project.slug, project.name, project.description)
    own = {m.project_id for m in shown if m.message_id not in redacted}
    own |= {project.project_id for project in known.values() if knows(project)}
    for product_id, name in whole.store.read("SELECT id, name FROM products ORDER BY id"):
        linked = whole.store.projects_of_product(product_id)
        if linked & own:
            part.store.add_product(product_id, name, sorted(linked & known.keys()))
    with part.store.writing() as db:
        for agent in agents:
            told = (agent.name, agent.program, agent.model, agent.task_description)
            values = (agent.agent_id, agent.project_id, *told, *spelled(*told))
            db.execute(_KEEP, values)
