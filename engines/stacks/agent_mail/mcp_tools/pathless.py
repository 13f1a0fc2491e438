"""Reasons as callers may read them: a file by its name, not by where it lies."""

from __future__ import annotations

import re
from dataclasses import replace

from engines.stacks.agent_mail.contract.explain import QueryExplain

_PATH = re.compile(r"(?<![\w.:/-])/(?:[^\s/:;,'\"()]+/)+([^\s/:;,'\"()]*)")


def pathless(said: str) -> str:
    """Leave of each absolute path its last part."""
    return _PATH.sub(r"\1", said)


def without_paths(explain: QueryExplain) -> QueryExplain:
    """Say the same of a query without absolute paths."""
    reason = explain.downgrade_reason
    return replace(
        explain,
        note=pathless(explain.note),
        downgrade_reason=None if reason is None else pathless(reason),
    )
