"""Lifecycle events (section 8): what happened, as one JSON object a line."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from enum import StrEnum

Scalar = str | int | float | bool | None
Payload = Mapping[str, Scalar]


class Event(StrEnum):
    """The names of section 8, and two of our own, which say what they carry."""

    REBUILD_START = "index.rebuild.start"
    REBUILD_COMPLETE = "index.rebuild.complete"
    INCREMENTAL_BATCH = "index.incremental.batch"
    SCHEMA_MISMATCH = "index.schema.mismatch"
    MODE_DOWNGRADE = "search.mode.downgrade"
    ENGINE_FALLBACK = "search.engine.fallback"
    """The mode is served, by another engine than the first: ``{wanted, engine, reason}``."""
    INDEX_STALE = "search.index.stale"
    """The engine that answered may miss a change of the messages: ``{engine, reason}``."""
    SHADOW_COMPARISON = "search.shadow.comparison"
    CURSOR_INVALIDATED = "search.cursor.invalidated"


Emit = Callable[[Event, Payload], object]
"""Takes an event and what section 8 says that it carries."""

LOG = logging.getLogger("engines.mail")


def to_log(event: Event, payload: Payload) -> None:
    """Write the event as a structured log line."""
    told = {"event": event.value, **payload}
    LOG.info(json.dumps(told, sort_keys=True), extra={"told": told})
