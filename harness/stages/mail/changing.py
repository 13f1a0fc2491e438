"""Messages of an arm's index, changed and followed while they are served."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import sleep

from engines import registry as arms
from engines.contract.errors import SearchError
from engines.stacks.agent_mail import ingest
from engines.stacks.agent_mail.arm import STORE, Mail
from engines.stacks.agent_mail.ingest import Ingest
from engines.stacks.agent_mail.live.follow import Live
from engines.stacks.agent_mail.searcher import MailSearcher
from harness.core.errors import HarnessError, IndexNotReady
from harness.stages.layout import Layout

PAUSE_S = 0.2
"""Between two looks at the journal."""


@contextmanager
def mail_box(layout: Layout, arm: str, cache: Path) -> Iterator[Ingest]:
    """Open the messages of an arm's index for writing.

    Raises:
        HarnessError: the arm is of another stack.
        IndexNotReady: the index is missing.
    """
    served = arms.load(arm, cache)
    if not isinstance(served.engine, Mail):
        raise HarnessError(f"{served.path}: only arms of the stack mail can be changed")
    try:
        with ingest.opened(layout.index(served.name) / STORE) as box:
            yield box
    except SearchError as exc:
        raise IndexNotReady(f"{exc}. Build it again: harness index") from exc


def follow(
    layout: Layout, arm: str, cache: Path, told: Callable[[int], object], rounds: int | None = None
) -> None:
    """Keep the indexes of an arm up to its messages; ``told`` learns each new generation.

    ``rounds`` looks at the journal are taken; None goes on until interrupted.

    Raises:
        HarnessError: the arm is of another stack, or an index cannot be kept.
    """
    served, last, left = arms.load(arm, cache), -1, rounds
    with served.open(layout.index(served.name)) as searcher:
        live = searcher.service.fresh if isinstance(searcher, MailSearcher) else None
        if not isinstance(live, Live):
            raise HarnessError(f"{served.path}: only arms of the stack mail can be followed")
        while left is None or left > 0:
            try:
                reached = live.catch_up()
            except SearchError as exc:
                raise HarnessError(f"{layout.index(served.name)}: {exc}") from exc
            if reached != last:
                told(reached)
            last, left = reached, None if left is None else left - 1
            sleep(PAUSE_S)
