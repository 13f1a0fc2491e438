"""Whatever goes wrong inside, as one of the four kinds that the service knows (section 9.1)."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TypeVar

from harness.core.errors import ModelNotReady
from harness_engines.contract import EngineError, FeatureUnavailable, SearchError

Doc = TypeVar("Doc")
_WAITED = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
"""SQLite waited for another process, and would wait again for each message."""


@contextmanager
def known() -> Iterator[None]:
    """Return one of the four kinds, whatever was raised."""
    try:
        yield
    except (SearchError, KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except ModelNotReady as exc:
        raise FeatureUnavailable(str(exc)) from exc
    except BaseException as exc:
        raise EngineError(f"{type(exc).__name__}: {exc}") from exc


@contextmanager
def of_leg(name: str) -> Iterator[None]:
    """Prefix what goes wrong in a leg with its name; its kind stays."""
    try:
        with known():
            yield
    except SearchError as exc:
        raise type(exc)(f"{name}: {exc}") from exc


def salvaged(
    hydrate: Callable[[Sequence[int]], Mapping[int, Doc]], lost: dict[int, str]
) -> Callable[[Sequence[int]], Mapping[int, Doc]]:
    """Read documents one by one where some cannot be read together; ``lost`` learns why."""

    def read(message_ids: Sequence[int]) -> Mapping[int, Doc]:
        try:
            with known():
                return hydrate(message_ids)
        except SearchError as exc:
            code = getattr(exc.__cause__, "sqlite_errorcode", None)
            if code is not None and code & 0xFF in _WAITED:
                raise
            found: dict[int, Doc] = {}
            unread: dict[int, str] = {}
            for one in message_ids:
                try:
                    with known():
                        found.update(hydrate([one]))
                except SearchError as why:
                    unread[one] = str(why)
            if not found:
                raise
        lost.update(unread)
        return found

    return read
