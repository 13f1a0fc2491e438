"""Tools that change messages, for operators alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from engines.contract import InvalidQuery
from engines.mcp_server import Code, Refused
from engines.stacks.agent_mail.contract import Importance
from engines.stacks.agent_mail.ingest import Draft, Ingest
from engines.stacks.agent_mail.ingest import Written as Done
from engines.stacks.agent_mail.mcp_tools.arguments import DeleteMessage, EditMessage, InsertMessage
from engines.stacks.agent_mail.mcp_tools.results import Changed
from engines.stacks.agent_mail.mcp_tools.search import Surface, project_called


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
        return _changed(lambda: self.box.insert(draft))

    def edit(self, surface: Surface, args: EditMessage) -> Changed:
        """Write parts of a message anew."""
        _check_operator(surface)
        new = args.model_dump(exclude={"id"}, exclude_none=True)
        if args.recipients is not None:
            new["recipients"] = _names(args.recipients)
        if args.importance is not None:
            new["importance"] = _importance(args.importance)
        return _changed(lambda: self.box.edit(args.id, **new))

    def delete(self, surface: Surface, args: DeleteMessage) -> Changed:
        """Remove a message."""
        _check_operator(surface)
        return _changed(lambda: self.box.delete(args.id))


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


def _changed(change: Callable[[], Done]) -> Changed:
    try:
        done = change()
    except InvalidQuery as exc:
        raise Refused(str(exc), Code.NOT_FOUND) from exc
    return Changed(id=done.message_ids[0], generation=done.generation)
