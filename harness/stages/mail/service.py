"""Message search open over an arm's index, behind the surface that callers of its tools see."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

from engines import registry as arms
from engines.stacks.agent_mail.arm import STORE, Mail
from engines.stacks.agent_mail.mcp_tools.search import Identity, Surface
from engines.stacks.agent_mail.mcp_tools.switched import Switched
from engines.stacks.agent_mail.pipeline.plan import KillSwitch
from engines.stacks.agent_mail.searcher import MailSearcher
from engines.stacks.agent_mail.sqlite import drivers
from harness.core.errors import HarnessError
from harness.shadow.live.settings import ShadowLog
from harness.stages.layout import Layout
from harness.stages.mail.shadow import watched


@contextmanager
def mail_service(
    layout: Layout,
    arm: str,
    cache: Path,
    switch: Callable[[], KillSwitch | None],
    shadow: ShadowLog | None = None,
    *,
    budget_ms: float = 0.0,
) -> Iterator[Switched]:
    """Open the arm's index; ``switch`` is called at every query, None leaves the arm's own.

    A query may take ``budget_ms``, or the arm's own budget where that is shorter; 0 means none.
    With ``shadow``, what is served under the switch ``shadow`` is compared and written down.

    Raises:
        HarnessError: it is not an arm of the stack mail.
        IndexNotReady: it has no index, or one of another arm.
        EvidenceError: another process writes a log to the folder.
    """
    served = arms.load(arm, cache)
    index = layout.index(served.name)
    with ExitStack() as until_closed:
        searcher = until_closed.enter_context(served.open(index))
        if not (isinstance(searcher, MailSearcher) and isinstance(served.engine, Mail)):
            raise HarnessError(f"{served.path}: only arms of the stack mail can be served")
        directory = until_closed.enter_context(drivers.opened(index / STORE, searcher.driver))
        service = searcher.service
        service = replace(service, budget_ms=_shorter(service.budget_ms, budget_ms))
        if shadow is not None:
            observer = watched(searcher, served, index, cache, shadow)
            service = replace(service, observer=until_closed.enter_context(observer))
        identity = Identity(served.name, searcher.manifest)
        surface = Surface(service, directory, identity, searcher.mode)
        yield Switched(surface, served.engine.settings.model_dump(), switch)


def _shorter(one_ms: float, other_ms: float) -> float:
    """Give the shorter of two budgets; 0 means none."""
    return min(filter(None, (one_ms, other_ms)), default=0.0)
