"""Which SQLite reads a message store: the one that Python brings, or that of apsw."""

from __future__ import annotations

import sqlite3
from contextlib import AbstractContextManager
from enum import StrEnum
from pathlib import Path

from engines.stacks.agent_mail.sqlite import apsw as apsw_store
from engines.stacks.agent_mail.sqlite import store
from engines.stacks.agent_mail.sqlite.store import MessageStore


class Driver(StrEnum):
    """Who brings SQLite; both answer alike."""

    STDLIB = "stdlib"
    APSW = "apsw"


def opened(path: Path, driver: Driver) -> AbstractContextManager[MessageStore]:
    """Open a store for reading.

    Raises:
        FeatureUnavailable: apsw is requested and not installed.
        IndexUnavailable: the store is missing, broken, or of another version.
    """
    return store.opened(path) if driver is Driver.STDLIB else apsw_store.opened(path)


def version(driver: Driver) -> str:
    """Give the version of SQLite.

    Raises:
        FeatureUnavailable: apsw is requested and not installed.
    """
    return sqlite3.sqlite_version if driver is Driver.STDLIB else apsw_store.sqlite_version()
