"""Which messages pass filters, for engines that cannot filter by themselves."""

from __future__ import annotations

import sqlite3

import numpy as np
from numpy.typing import NDArray

from engines.stacks.agent_mail.contract.query import Filters
from engines.stacks.agent_mail.sqlite.filters import where
from engines.stacks.agent_mail.sqlite.store import MessageStore, search_error


def matching_ids(store: MessageStore, filters: Filters) -> NDArray[np.int64]:
    """Give the ids that pass, ascending.

    Raises:
        IndexUnavailable: the message table is missing or broken.
        EngineError: SQLite failed.
    """
    passing = where(filters)
    sql = f"SELECT m.id FROM messages AS m WHERE {passing.sql} ORDER BY m.id"  # noqa: S608  values are bound
    try:
        rows = store.ask(sql, passing.params)
    except sqlite3.Error as exc:
        raise search_error(exc, "message table") from exc
    return np.array([row[0] for row in rows], dtype=np.int64)
