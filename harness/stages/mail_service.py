"""Message search open over an arm's index, behind the surface that callers of its tools see."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from engines.contract import arms
from engines.stacks.agent_mail import drivers
from engines.stacks.agent_mail.plan import KillSwitch
from engines.stacks.agent_mail.searcher import MailSearcher
from engines.stacks.agent_mail.surface.search import Identity, Surface
from engines.stacks.agent_mail.surface.switched import Switched
from engines.stacks.text.mail import STORE, Mail
from harness.core.errors import HarnessError
from harness.stages.layout import Layout


@contextmanager
def mail_service(
    layout: Layout, arm: str, cache: Path, switch: Callable[[], KillSwitch | None]
) -> Iterator[Switched]:
    """Open the arm's index; ``switch`` is asked at every question, None leaves the arm's own.

    Raises:
        HarnessError: it is no arm of the stack mail.
        IndexNotReady: it has no index, or one of another arm.
    """
    served = arms.load(arm, cache)
    index = layout.index(served.name)
    with served.engine.open(index) as searcher:
        if not (isinstance(searcher, MailSearcher) and isinstance(served.engine, Mail)):
            raise HarnessError(f"{served.path}: only arms of the stack mail can be served")
        with drivers.opened(index / STORE, searcher.driver) as directory:
            identity = Identity(served.name, searcher.manifest)
            surface = Surface(searcher.service, directory, identity, searcher.mode)
            yield Switched(surface, served.engine.settings.model_dump(), switch)
