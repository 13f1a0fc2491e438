"""An index whose table has changed since it was built: what its answers are signed with."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from engines.contract import manifest
from engines.stacks.agent_mail.sqlite import journal
from engines.stacks.agent_mail.sqlite.store import MessageStore
from harness.core.digest import of_json
from harness.core.engine import Manifest


def as_it_is(index: Path, made: Manifest, opened: MessageStore) -> Manifest:
    """Say what messages the table holds: those that were indexed, until they change.

    Raises:
        IndexNotReady: it holds others, and its journal has no change.
        SearchError: the table cannot be read.
    """
    generation, total = journal.generation(opened), opened.total_count()
    if not generation:
        manifest.check_count(index, made, total)
        return made
    moved = of_json([made.corpus_sha256, generation])
    return replace(made, documents=total, corpus_sha256=moved)
