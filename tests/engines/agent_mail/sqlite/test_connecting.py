"""What a writer that was killed left half done is taken back by whoever reads."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from engines.stacks.agent_mail import ingest
from engines.stacks.agent_mail.ingest import Draft
from engines.stacks.agent_mail.sqlite import store
from engines.stacks.agent_mail.sqlite.schema import undo
from tests.make.mail.messages import some_mail, stored
from tests.source import ROOT

KILLED = """
import os, sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.execute("PRAGMA cache_size = 2")
db.execute("BEGIN IMMEDIATE")
db.execute("UPDATE messages SET body = 'half done'")
os.kill(os.getpid(), 9)
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with stored(tmp_path / "mail.db", some_mail(7, 40).messages):
        return tmp_path / "mail.db"


@pytest.mark.parametrize("while_open", [False, True])
def test_what_a_killed_writer_left_half_done_is_taken_back_by_who_reads(
    path: Path,
    while_open: bool,  # noqa: FBT001  a case
) -> None:
    sql = "SELECT count(*) FROM messages WHERE body = 'half done'"
    big = "UPDATE messages SET body = hex(randomblob(4000))"
    with store.opened(path, write=True) as made:
        made.db.execute(big)
    if while_open:
        with store.opened(path) as reads:
            subprocess.run([sys.executable, "-c", KILLED, str(path)], check=False)
            assert path.with_name("mail.db-journal").exists()
            assert reads.read(sql) == [(0,)]
    else:
        subprocess.run([sys.executable, "-c", KILLED, str(path)], check=False)
        assert path.with_name("mail.db-journal").exists()
        with store.opened(path) as reads:
            assert reads.read(sql) == [(0,)]
    assert not path.with_name("mail.db-journal").exists()


def test_where_nothing_is_half_done_nothing_happens(path: Path, tmp_path: Path) -> None:
    before = path.read_bytes()
    undo(path)
    undo(tmp_path / "none")
    assert path.read_bytes() == before
    assert not (tmp_path / "none").exists()


def test_nobody_waits_for_a_writer_and_it_leaves_one_file(path: Path) -> None:
    with store.opened(path) as reads, ingest.opened(path) as writes:
        written = writes.insert(Draft(1, "a subject", "a body", "RedFox"))
        db = writes.store.db
        db.execute("BEGIN EXCLUSIVE")
        db.execute("UPDATE messages SET body = 'not yet'")
        reads.db.execute("PRAGMA busy_timeout = 0")
        assert reads.hydrate(written.message_ids)[written.message_ids[0]].body == "a body"
        db.execute("ROLLBACK")
    with store.opened(path) as reads:
        assert reads.hydrate(written.message_ids)
    assert [one.name for one in path.parent.iterdir()] == ["mail.db"]


WRITER = """
import os, sys
from pathlib import Path
from engines.stacks.agent_mail import ingest
with ingest.opened(Path(sys.argv[1])) as writes:
    writes.insert(ingest.Draft(1, "a subject", "finished", "RedFox"))
    writes.store.db.execute("BEGIN IMMEDIATE")
    writes.store.db.execute("UPDATE messages SET subject = 'half done'")
    os.kill(os.getpid(), 9)
"""


def test_what_a_killed_writer_finished_is_there_and_the_rest_is_not(path: Path) -> None:
    sql = "SELECT count(*) FROM messages WHERE body = 'finished' AND subject != 'half done'"
    with store.opened(path) as reads:
        assert reads.read(sql) == [(0,)]
        subprocess.run([sys.executable, "-c", WRITER, str(path)], check=False, cwd=ROOT)
        assert path.with_name("mail.db-wal").exists()
        assert reads.read(sql) == [(1,)]
    with store.opened(path) as reads:
        assert reads.read(sql) == [(1,)]
    assert [one.name for one in path.parent.iterdir()] == ["mail.db"]
