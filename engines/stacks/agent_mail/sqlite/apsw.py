"""A message store read through apsw, whose SQLite is newer than Python's and quicker at FTS5.

It is optional: ``pip install "search-harness[fast]"``. SQLite counts no memory then, and a
connection has no mutex of its own, since the store's lock does that; both cost more than a third of
a query's time. A file must not be open through Python's SQLite at once in one process. What
either closes takes the locks of both (SQLite, How To Corrupt An SQLite Database File, 2.2.1).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple, cast

from engines.contract.errors import FeatureUnavailable
from engines.stacks.agent_mail.sqlite.connecting import Param, undo
from engines.stacks.agent_mail.sqlite.readers import Readers
from engines.stacks.agent_mail.sqlite.store import MessageStore, checked, search_error
from harness.core.extras import install


class Rows(NamedTuple):
    """What a statement gave."""

    rows: list[tuple[Any, ...]]

    def fetchall(self) -> list[tuple[Any, ...]]:
        """Give all rows."""
        return self.rows


@dataclass(frozen=True, slots=True)
class ReadConnection:
    """As much of ``sqlite3.Connection`` as a store needs for reading, with its errors."""

    db: Any

    def execute(self, sql: str, params: Sequence[Param] = ()) -> Rows:
        """Run one statement.

        Raises:
            sqlite3.Error: SQLite refuses; it carries SQLite's code.
        """
        with _as_python_says():
            return Rows(self.db.execute(sql, tuple(params)).fetchall())

    def set_progress_handler(self, progress_handler: Callable[[], object] | None, n: int) -> None:
        """Ask every ``n`` steps whether to go on; see ``sqlite3.Connection``."""
        self.db.set_progress_handler(progress_handler, n)

    def close(self) -> None:
        """Let go of the file."""
        self.db.close()


@contextmanager
def opened(path: Path) -> Iterator[MessageStore]:
    """Open a store for reading; it answers as ``store.opened`` does.

    Raises:
        FeatureUnavailable: apsw is not installed.
        IndexUnavailable: the store is missing, broken, or of another version.
    """
    apsw = _installed()
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_NOMUTEX

    def connect() -> sqlite3.Connection:
        with _as_python_says():
            made = ReadConnection(apsw.Connection(str(path), flags=flags))
        return cast("sqlite3.Connection", made)

    try:
        undo(path)
        db = connect()
    except sqlite3.Error as exc:
        raise search_error(exc, str(path)) from exc
    with closing(db), closing(Readers(connect)) as readers:
        yield checked(MessageStore(db, readers=readers), path)


def sqlite_version() -> str:
    """Give the version of apsw's SQLite.

    Raises:
        FeatureUnavailable: apsw is not installed.
    """
    return str(_installed().sqlite_lib_version())


def _installed() -> Any:  # noqa: ANN401  a module that may be absent
    """Give apsw.

    Raises:
        FeatureUnavailable: it is not installed.
    """
    if not find_spec("apsw"):
        raise FeatureUnavailable(f"apsw is not installed. Run: {install('fast')}")
    return _configured()


@cache
def _configured() -> Any:  # noqa: ANN401  a module that may be absent
    """Import apsw and switch off the counting of memory, which is possible before its first use."""
    apsw = import_module("apsw")
    apsw.shutdown()
    apsw.config(apsw.SQLITE_CONFIG_MEMSTATUS, False)  # noqa: FBT003  as apsw has it
    apsw.initialize()
    return apsw


@contextmanager
def _as_python_says() -> Iterator[None]:
    """Raise what ``sqlite3`` raises where apsw raises something of its own."""
    apsw = _configured()
    try:
        yield
    except apsw.Error as exc:
        code = getattr(exc, "extendedresult", None)
        if code is None:
            raise sqlite3.ProgrammingError(str(exc)) from exc
        broken = isinstance(exc, (apsw.CorruptError, apsw.NotADBError))
        raised = (sqlite3.DatabaseError if broken else sqlite3.OperationalError)(str(exc))
        raised.sqlite_errorcode = code
        raise raised from exc
