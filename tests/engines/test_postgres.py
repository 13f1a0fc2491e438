"""PostgreSQL: what is written to it, and a server."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import sleep
from typing import Any

import psutil
import psycopg
import pytest

from harness.check.checks import check
from harness.core.errors import IndexNotReady, InvalidArm
from harness.core.records import Document, Query
from harness.core.run import Status
from harness.replay.drive import observe
from harness_engines.stacks import keeper
from harness_engines.stacks import postgres as arm
from harness_engines.stacks.postgres import Postgres, PostgresSearcher, PostgresSettings
from tests.source import ROOT

DOCUMENTS = (
    Document("b", "cone", "red"), Document("B", "cone", "red"), Document("c", "", "blue cube"),
)  # fmt: skip
NAME = "SEARCH_DSN"


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Run a server as somebody else's, once: each index has a schema of its own."""
    with arm.server(tmp_path_factory.mktemp("server")) as found:
        yield found


@pytest.fixture
def dsn(running: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Set the variable by which arms reach it."""
    monkeypatch.setenv(NAME, running)
    return running


def engine(cache: Path, **changed: Any) -> Postgres:  # noqa: ANN401  any value of a file
    """Make an arm of the running server."""
    given = {"mode": "words", "timeout_s": 5.0, "dsn_env": NAME, **changed}
    return Postgres(PostgresSettings.model_validate(given), cache)


@contextmanager
def opened(
    engine: Postgres, index: Path, documents: tuple[Document, ...] = DOCUMENTS
) -> Iterator[PostgresSearcher]:
    index.mkdir()
    engine.build(documents, index)
    with engine.open(index) as searcher:
        assert isinstance(searcher, PostgresSearcher)
        yield searcher


def refused(engine: Postgres, index: Path, says: str) -> None:
    with pytest.raises(IndexNotReady, match=says), engine.open(index):
        pass


def ids(searcher: PostgresSearcher, text: str, k: int = 10) -> list[str]:
    return [hit.doc_id for hit in searcher.search(text, k).hits]


HYBRID = 'mode = "hybrid"\nnearest = "hnsw"\nvectors = { embedder = "hash", max_tokens = 64 }'


@pytest.mark.slow
@pytest.mark.usefixtures("dsn")
@pytest.mark.sampled(1)
@pytest.mark.parametrize("lines", [HYBRID, 'mode = "words"'], ids=["hybrid", "words"])
def test_it_keeps_the_contract(lines: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    head = f'summary = "x"\nstack = "postgres"\n[settings]\ndsn_env = "{NAME}"\n'
    path.write_text(f"{head}timeout_s = 20.0\n{lines}\n", "utf-8")
    found = check(str(path), tmp_path / "cache")
    assert found.holds, [str(one) for one in found.findings if one.broken]


@pytest.mark.slow
@pytest.mark.usefixtures("dsn")
def test_titles_weigh_more_and_equal_scores_come_by_bytes_of_the_id(tmp_path: Path) -> None:
    with opened(engine(tmp_path), tmp_path / "words") as searcher:
        assert ids(searcher, "red cone") == ["B", "b"]
        assert ids(searcher, "cube -blue") == []
    more = (*DOCUMENTS, Document("A", "", "a cone"))
    with opened(engine(tmp_path, config="english"), tmp_path / "stems", more) as searcher:
        assert ids(searcher, "cones") == ["B", "b", "A"]
        assert searcher.search("to be", 9).note.startswith("only stop words")
        assert not searcher.search("pyramid", 9).note
    hybrid = engine(tmp_path, mode="hybrid", vectors={"embedder": "hash", "max_tokens": 64})
    with opened(hybrid, tmp_path / "hybrid") as searcher:
        assert ids(searcher, "red cone") == ["B", "b", "c"]


@pytest.mark.slow
def test_a_server_by_dsn_refuses_another_generation(dsn: str, tmp_path: Path) -> None:
    made = engine(tmp_path)
    with opened(made, tmp_path / "index") as searcher:
        assert ids(searcher, "cone") == ["B", "b"]
        ((schema,),) = searcher.to.connection.execute("SELECT current_schema()").fetchall()
    with psycopg.connect(dsn, autocommit=True) as to:
        to.execute(f"UPDATE {schema}.about SET generation = 'another'")  # noqa: S608  its own name
        refused(made, tmp_path / "index", "another generation")
        to.execute(f"DROP SCHEMA {schema} CASCADE")
    refused(made, tmp_path / "index", "does not have the index")


@pytest.mark.slow
@pytest.mark.usefixtures("dsn")
def test_an_index_that_moves_makes_the_arm_invalid(tmp_path: Path) -> None:
    def moves() -> None:
        with opened(engine(tmp_path), tmp_path / "index") as searcher:
            searcher.to.connection.execute("UPDATE about SET generation = 'another'")
            assert ids(searcher, "cone") == ["B", "b"]

    with pytest.raises(InvalidArm, match="moved while queries ran"):
        moves()


@pytest.mark.slow
def test_a_statement_that_takes_too_long_is_a_failed_query(tmp_path: Path) -> None:
    """The server is the arm's own."""
    with opened(engine(tmp_path, dsn_env=""), tmp_path / "index") as searcher:
        searcher.to.connection.execute("SET statement_timeout = 50")
        with pytest.raises(TimeoutError, match=r"cancelled the statement.*timeout_s = 5"):
            searcher.to.rows("SELECT pg_sleep(10)")
        assert ids(searcher, "cube") == ["c"]


@pytest.mark.slow
def test_a_connection_that_is_cut_is_opened_again_and_counted(dsn: str, tmp_path: Path) -> None:
    with opened(engine(tmp_path), tmp_path / "index") as searcher:
        for _ in range(3):
            with psycopg.connect(dsn, autocommit=True) as other:
                other.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                    " WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'"
                )
            seen = observe(searcher, Query("q", "cone"), 10, 10**10)
            assert (seen.row.status, seen.retries) == (Status.ANSWERED, 1)


SCRIPT = """
import sys, time
from pathlib import Path
from harness_engines.stacks import postgres as arm
with arm.server(Path(sys.argv[1])) as dsn:
    print(dsn, flush=True)
    time.sleep(600)
"""


@pytest.mark.slow
def test_no_server_is_left_behind(tmp_path: Path) -> None:
    client = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(tmp_path)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    assert client.stdout is not None
    folder = Path(client.stdout.readline().split()[0].removeprefix("host="))
    pid = int((folder / "data" / "postmaster.pid").read_text().split()[0])
    server = psutil.Process(pid)
    assert Path(server.parent().cmdline()[3]).name == Path(keeper.__file__).name
    client.kill()
    psutil.wait_procs([server], timeout=30)
    assert not server.is_running()
    client.wait()
    client.stdout.close()
    for _ in range(1_000):
        if not folder.exists():
            return
        sleep(0.01)
    raise AssertionError(f"{folder} is still there")


@pytest.mark.parametrize("seconds", [0, 0.0009, 1e308, float("inf"), float("nan")])
def test_a_time_limit_is_one(seconds: float) -> None:
    """0.9 ms were sent as 0, which is no limit, and 1e308 s ended without a file or a remedy."""
    with pytest.raises(ValueError, match="timeout_s"):
        PostgresSettings(mode="words", timeout_s=seconds)
