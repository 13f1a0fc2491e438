"""What a server logs, as lines on the error stream: for people, or one JSON object each."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

from harness.core.printable import one_line


class Lines(logging.Formatter):
    """Writes a record as one line; what happened comes with its values."""

    def __init__(self, *, as_json: bool) -> None:
        super().__init__()
        self._as_json = as_json

    def format(self, record: logging.LogRecord) -> str:
        """Write time, level, event and values; of a record without an event its message."""
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        told = getattr(record, "told", None) or {"message": record.getMessage()}
        if record.exc_info and record.exc_info[0] is not None:
            told = {**told, "error": record.exc_info[0].__name__}
        if self._as_json:
            about = {"time": at, "level": record.levelname, "logger": record.name}
            return json.dumps({**about, **told})
        said = [told.get("event", told.get("message", ""))]
        said += [f"{key}={value}" for key, value in told.items() if key not in {"event", "message"}]
        return one_line(" ".join([at, record.levelname, *map(str, said)]))


@contextmanager
def logged(name: str, *, as_json: bool) -> Iterator[None]:
    """Write what the logger ``name`` and those below it are told, from INFO up, while this runs."""
    log, handler = logging.getLogger(name), logging.StreamHandler(sys.stderr)
    handler.setFormatter(Lines(as_json=as_json))
    before = log.level, log.propagate
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    log.propagate = False
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.setLevel(before[0])
        log.propagate = before[1]
