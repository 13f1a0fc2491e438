"""The surface of an arm whose kill switch may be set while it serves."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from engines.stacks.agent_mail.contract.query import DocKind
from engines.stacks.agent_mail.mcp_tools.arguments import Arguments
from engines.stacks.agent_mail.mcp_tools.results import SearchResult
from engines.stacks.agent_mail.mcp_tools.search import Identity, Surface
from engines.stacks.agent_mail.pipeline.plan import KillSwitch, chain
from engines.stacks.agent_mail.pipeline.scope import Scope
from harness.core.digest import of_json

SETTING = "search_engine"


class Who(NamedTuple):
    """Whom an answer must name under a value of the switch."""

    fingerprint: str
    engine: str


def under(identity: Identity, settings: Mapping[str, Any], switch: KillSwitch | None) -> Identity:
    """Identity of an arm whose switch is set: that of the arm with this setting.

    So what ``mail-tantivy`` answers under ``fts5`` is signed as what ``mail-fts5`` answers, where
    the two arms differ in nothing else.
    """
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
    def identity(self) -> Identity:
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
        """Give the surface as one caller sees it now; None is the operator, who sees all."""
        return self.now.seen_by(scope)

    def by_default(self, scope: Scope | None) -> Switched:
        """Answer whoever names no one as ``scope`` says; None as an operator."""
        return Switched(self.base.seen_by(scope), self.settings, self.read)

    @property
    def scope(self) -> Scope | None:
        """Whom it answers for where a call names no one."""
        return self.base.scope

    def search(self, args: Arguments) -> SearchResult:
        """Answer a call, all of it under one value of the switch."""
        return self.now.search(args)

    def who(self, switch: KillSwitch) -> Who:
        """Name who answers a query in the arm's own mode under ``switch``, unless degraded."""
        signed = under(self.base.identity, self.settings, switch).manifest.fingerprint
        return Who(signed, chain(self.base.mode, switch, DocKind.MESSAGE)[0].value)

    def _under(self, switch: KillSwitch | None) -> Surface:
        if switch is None:
            return self.base
        return replace(
            self.base,
            service=replace(self.base.service, switch=switch),
            identity=under(self.base.identity, self.settings, switch),
        )
