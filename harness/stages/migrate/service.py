"""The mail service under drill: opened here, or running elsewhere and asked over MCP."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from engines.stacks.agent_mail.mcp_tools.arguments import EVERY_PROJECT, InProject, resolved
from engines.stacks.agent_mail.mcp_tools.server import MESSAGES
from engines.stacks.agent_mail.mcp_tools.switched import Switched
from engines.stacks.agent_mail.pipeline.plan import KillSwitch
from engines.stacks.agent_mail.switch_file import SwitchFile
from engines.stacks.remote.client.connection import connected
from harness.core.errors import EvidenceError, UnknownName
from harness.stages.layout import Layout
from harness.stages.mail.service import mail_service
from harness.stages.migrate.drill import Service, Who
from harness.stages.migrate.switch import FILE

SHOWN = 10
"""Messages of a query: a page."""


@contextmanager
def opened(
    layout: Layout, arm: str, cache: Path, folder: Path, *, url: str, timeout_s: float
) -> Iterator[Service]:
    """Open the arm in this process, over the switch in ``folder``; or ask the server at ``url``.

    Raises:
        IndexNotReady: the arm has no index, or no one answers at ``url``.
        BadFile: the switch cannot be read.
    """
    with mail_service(layout, arm, cache, SwitchFile(folder / FILE).read) as here:
        if not url:
            yield Service(lambda text: _asked(here, text), lambda value: _meant(here, value))
            return
        with connected([], url, timeout_s) as to:

            def ask(text: str) -> Who:
                found = to.call(
                    MESSAGES, {"project_key": EVERY_PROJECT, "query": text, "limit": SHOWN}
                )
                by = found.get("served_by")
                if not isinstance(by, dict) or not {"fingerprint", "engine"} <= by.keys():
                    raise EvidenceError(f"{to.server}: does not say who answered")
                return Who(str(by["fingerprint"]), str(by["engine"]))

            yield Service(ask, lambda value: _meant(here, value))


def _asked(service: Switched, text: str) -> Who:
    given = {"project_key": EVERY_PROJECT, "query": text, "limit": SHOWN}
    by = service.search(resolved(InProject, given)).served_by
    return Who(by.fingerprint, by.engine)


def _meant(service: Switched, value: str) -> Who:
    switch = KillSwitch.read(value)
    if switch is None:
        raise UnknownName("SEARCH_ENGINE", value, [known.value for known in KillSwitch])
    return Who(*service.who(switch))
