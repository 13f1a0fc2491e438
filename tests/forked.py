"""Processes that our code starts anew are forked from one that has imported our modules already.

To start Python anew and to import takes a second or two of a processor, and says nothing. What is
forked has done nothing else either: the server imports, and no more. ``--all`` starts anew.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import context
from unittest.mock import patch

IMPORTED = (
    "harness_engines.stacks.agent_mail.arm",
    "harness_engines.stacks.agent_mail.mcp_tools.server",
    "harness_engines.stacks.agent_mail.mcp_tools.server",
    "harness_engines.stacks.text.fts5",
    "harness_engines.stacks.text.tantivy",
    "harness.serve.commands",
    "harness.shadow.worker",
    "harness.shadow.http",
    "harness.load.files",
    "harness.pipeline.mail",
    "harness.pipeline.mail",
    "harness.pipeline.prepare",
    "harness.pipeline.race",
    "harness.pipeline.replay",
    "harness.shadow.mcp",
)
"""What the processes do, and the engines that most of them open."""


KNOWN = vars(context)["_concrete_contexts"]
ANEW = KNOWN["spawn"]


def forks() -> bool:
    """Tell whether what is started now is forked."""
    return KNOWN["spawn"] is not ANEW


def fork() -> None:
    """Let ``spawn`` mean a fork of that server, in this process."""
    KNOWN["spawn"] = KNOWN["forkserver"]
    multiprocessing.set_forkserver_preload(list(IMPORTED))


@contextmanager
def anew() -> Iterator[None]:
    """Start Python anew after all, for tests that look at the processes themselves."""
    with patch.dict(KNOWN, spawn=ANEW):
        yield
