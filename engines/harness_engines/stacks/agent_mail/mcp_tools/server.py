"""The declarations of the tools, and the surface that they are called on, under its kill switch."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from mcp.server.lowlevel import Server

from harness.core.digest import of_json
from harness_engines import mcp_server
from harness_engines.contract import InvalidQuery, SearchError
from harness_engines.mcp_server import CALLER, RefusalCode, Tool, ToolArguments, ToolRefusal
from harness_engines.stacks.agent_mail.contract import DocKind, Importance
from harness_engines.stacks.agent_mail.ingest import Draft, Ingest, IngestedMessages
from harness_engines.stacks.agent_mail.mcp_tools.arguments import (
    Beginning,
    Changed,
    DeleteMessage,
    EditMessage,
    InProduct,
    InProject,
    InsertMessage,
    ResultModel,
    SearchResult,
    SubjectsFound,
    pathless,
)
from harness_engines.stacks.agent_mail.mcp_tools.search import ServedIndex, Surface, project_called
from harness_engines.stacks.agent_mail.pipeline.plan import KillSwitch, engine_chain
from harness_engines.stacks.agent_mail.pipeline.scope import Scope

LOG = logging.getLogger("engines.mail.surface")
NAME = "agent-mail-search"
MESSAGES, PRODUCT, SUBJECT = "search_messages", "search_messages_product", "complete_subject"


class Offered(NamedTuple):
    """A tool: its arguments, what it gives, and how a surface answers it."""

    about: str
    takes: type[ToolArguments]
    gives: type[ResultModel]
    answer: Callable[[Surface, Any], ResultModel]


TOOLS: Mapping[str, Offered] = {
    MESSAGES: Offered(
        "Search the messages, agents or projects of a project, or of every project with *.",
        InProject,
        SearchResult,
        Surface.search,
    ),
    PRODUCT: Offered(
        "Search the messages of all projects of a product.", InProduct, SearchResult, Surface.search
    ),
    SUBJECT: Offered(
        "Complete a subject that is being typed.", Beginning, SubjectsFound, Surface.subjects
    ),
}


def _names(said: str) -> tuple[str, ...]:
    return tuple(name for one in said.split(",") if (name := one.strip()))


def _importance(said: str) -> Importance:
    try:
        return Importance(said)
    except ValueError as exc:
        known = ", ".join(level.value for level in Importance)
        raise ToolRefusal(f"importance is {said!r}, give one of {known}") from exc


def writing(box: Ingest) -> Mapping[str, Offered]:
    """Return the tools that change messages, for whoever sees all of them."""

    def insert(surface: Surface, args: InsertMessage) -> IngestedMessages:
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
        return box.insert(draft)

    def edit(_: Surface, args: EditMessage) -> IngestedMessages:
        new = args.model_dump(exclude={"id"}, exclude_none=True)
        if args.recipients is not None:
            new["recipients"] = _names(args.recipients)
        if args.importance is not None:
            new["importance"] = _importance(args.importance)
        return box.edit(args.id, **new)

    def delete(_: Surface, args: DeleteMessage) -> IngestedMessages:
        return box.delete(args.id)

    return {
        "insert_message": Offered("Write a new message.", InsertMessage, Changed, _changed(insert)),
        "edit_message": Offered("Change a message.", EditMessage, Changed, _changed(edit)),
        "delete_message": Offered("Delete a message.", DeleteMessage, Changed, _changed(delete)),
    }


def _changed(
    change: Callable[[Surface, Any], IngestedMessages],
) -> Callable[[Surface, Any], Changed]:
    """Return the tool that makes a change for operators alone."""

    def answer(surface: Surface, args: ToolArguments) -> Changed:
        if surface.scope is not None:
            raise ToolRefusal("only an operator may change messages", RefusalCode.FORBIDDEN)
        try:
            done = change(surface, args)
        except InvalidQuery as exc:
            raise ToolRefusal(str(exc), RefusalCode.NOT_FOUND) from exc
        return Changed(id=done.message_ids[0], generation=done.generation)

    return answer


def application(surface: Surface | Switched, box: Ingest | None = None) -> Server[Any]:
    """Make a server of the tools; its version is the fingerprint of who answers at the start."""
    made = surface.identity.manifest
    if surface.scope is not None:
        made = replace(made, documents=0, corpus_sha256="")
    offered = {**TOOLS, **(writing(box) if box else {})}
    return mcp_server.application(
        NAME,
        surface.identity.arm,
        made.fingerprint,
        [
            Tool(name, one.about, one.takes, _answering(surface, name, one), one.gives)
            for name, one in offered.items()
        ],
    )


def _answering(
    surface: Surface | Switched, name: str, offered: Offered
) -> Callable[[Any], Mapping[str, Any]]:
    def answer(args: ToolArguments) -> Mapping[str, Any]:
        try:
            seen = surface.seen_by(CALLER.get(surface.scope))
            return offered.answer(seen, args).written()
        except SearchError as exc:
            LOG.warning("%s: %s", name, exc)
            raise ToolRefusal(pathless(str(exc)), RefusalCode.FAILED) from exc

    return answer


SETTING = "search_engine"


class NamedAnswerer(NamedTuple):
    """Whom an answer must name under a value of the switch."""

    fingerprint: str
    engine: str


def under(
    identity: ServedIndex, settings: Mapping[str, Any], switch: KillSwitch | None
) -> ServedIndex:
    """Identity of an arm whose switch is set: that of the arm with this setting."""
    if switch is None or settings[SETTING] == switch:
        return identity
    changed = of_json({**settings, SETTING: switch.value})
    return replace(identity, manifest=replace(identity.manifest, settings_sha256=changed))


@dataclass(frozen=True, slots=True)
class Switched:
    """A surface that asks for its switch at every query; the index stays open."""

    base: Surface
    settings: Mapping[str, Any]
    """Of the arm."""
    read: Callable[[], KillSwitch | None]
    """Gives the switch as it is now; None leaves the arm's own."""
    _made: dict[KillSwitch | None, Surface] = field(default_factory=dict)

    @property
    def identity(self) -> ServedIndex:
        """Who answers now."""
        return self.now.identity

    @property
    def now(self) -> Surface:
        """The surface as the switch is now."""
        switch = self.read()
        if switch not in self._made:
            self._made[switch] = self._under(switch)
        return self._made[switch]

    def seen_by(self, scope: Scope | None) -> Surface:
        """Return the surface as one caller sees it now; None is the operator, who sees all."""
        return self.now.seen_by(scope)

    def by_default(self, scope: Scope | None) -> Switched:
        """Answer whoever names no one as ``scope`` says; None as an operator."""
        return Switched(self.base.seen_by(scope), self.settings, self.read)

    @property
    def scope(self) -> Scope | None:
        """Whom it answers for where a call names no one."""
        return self.base.scope

    def who(self, switch: KillSwitch) -> NamedAnswerer:
        """Name who answers a query in the arm's own mode under ``switch``, unless degraded."""
        signed = under(self.base.identity, self.settings, switch).manifest.fingerprint
        return NamedAnswerer(signed, engine_chain(self.base.mode, switch, DocKind.MESSAGE)[0].value)

    def _under(self, switch: KillSwitch | None) -> Surface:
        if switch is None:
            return self.base
        return replace(
            self.base,
            service=replace(self.base.service, switch=switch),
            identity=under(self.base.identity, self.settings, switch),
        )
