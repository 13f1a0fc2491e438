"""Messages, agents and projects of a store written as another program does."""

from collections.abc import Mapping
from dataclasses import dataclass

from harness_engines.stacks.agent_mail.contract import Changes, MailProject, Message
from harness_engines.stacks.agent_mail.sqlite import store as stores
from harness_engines.stacks.agent_mail.sqlite.store import AddressKind, MessageStore, spelled


def insert(
    store: MessageStore, message: Message, kinds: Mapping[str, AddressKind] | None = None
) -> Changes:
    """Add a message of a new id."""
    store.insert_all([(message, kinds or {})])
    return {message.message_id: message}


def update(
    store: MessageStore, message: Message, kinds: Mapping[str, AddressKind] | None = None
) -> None:
    """Write all of a message anew, its recipients too."""
    with store.writing() as db:
        if not stores.update(db, message, kinds or {}):
            raise KeyError(f"no message {message.message_id}")


def delete(store: MessageStore, message_id: int) -> Changes:
    """Remove a message."""
    with store.writing() as db:
        if not db.execute("DELETE FROM messages WHERE id = ?", (message_id,)).rowcount:
            raise KeyError(f"no message {message_id}")
    return {message_id: None}


_REGISTER = (
    "INSERT INTO agents (project_id, name, program, model, task_description, identifiers,"
    " subject_form, body_form) VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (project_id, name)"
    " DO UPDATE SET program = excluded.program, model = excluded.model,"
    " task_description = excluded.task_description, identifiers = excluded.identifiers,"
    " subject_form = excluded.subject_form, body_form = excluded.body_form"
)
_DESCRIBE = (
    "UPDATE projects SET name = ?, description = ?, identifiers = ?, subject_form = ?,"
    " body_form = ? WHERE id = ? AND slug = ?"
)


@dataclass(frozen=True)
class Directory:
    """Writes what is known of agents and projects."""

    store: MessageStore

    def register(
        self,
        project_id: int,
        name: str,
        *,
        program: str = "",
        model: str = "",
        task_description: str = "",
    ) -> None:
        """Write what an agent is; what was written of it before is gone."""
        told = (name, program, model, task_description)
        with self.store.writing() as db:
            db.execute(_REGISTER, (project_id, *told, *spelled(*told)))

    def describe(self, project: MailProject) -> None:
        """Write a project's name and description anew; its slug stays."""
        forms = spelled(f"{project.slug}\n{project.name}", project.description)
        with self.store.writing() as db:
            of = project.project_id, project.slug
            values = (project.name, project.description, *forms, *of)
            db.execute(_DESCRIBE, values)
