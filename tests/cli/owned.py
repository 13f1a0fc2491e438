"""Tables of what each command writes, keeps and reads; its options that take a path.

The commands are those of the program: a new path among their options is in one of the tables, or
``test_fuzzed.py`` is red.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import typer

from harness.cli import application
from harness.clicks.credit import Click, ClickLog, ShownList
from harness.core.folders import (
    COMPARISON,
    CONVERT,
    EXPERIMENT_LOG,
    EXPORT,
    HISTORY,
    MAIL,
    MIGRATION,
    RUN,
    SHADOW_LOG,
    SHADOW_REPORT,
)

TOY = ("--dataset", "toy", "--control", "fts5")
PAIR = (*TOY, "--candidate", "tantivy")
LEFT = ("--from", "ran")
SHADOW = ("--reading", "reading.toml", "--shadow-settings", "shadow.toml")
ADDRESS = "http://127.0.0.1:9"
SERVERS = ("--control", ADDRESS, "--candidate", ADDRESS)


class Owns(NamedTuple):
    """A command and the option that names the folder that it owns."""

    words: tuple[str, ...]
    """All but that option."""
    option: str
    owner: str
    runs: bool = True
    """Whether it ends by itself, so that it is also seen to succeed."""
    command: str = ""
    """Where it is not the key of the table."""


OWNED = {
    "run": Owns(("--dataset", "toy", "--arms", "fts5"), "--out", RUN),
    "run with a log": Owns(
        ("--dataset", "toy", "--arms", "fts5", "--out", "logged{}"),
        "--log",
        EXPERIMENT_LOG,
        command="run",
    ),
    "compare": Owns(
        (f"{ADDRESS}/?q={{{{query}}}}", ADDRESS, "--log", "log.csv"),
        "--out",
        COMPARISON,
        runs=False,
    ),
    "export": Owns(TOY, "--out", EXPORT),
    "convert": Owns(("toy", "--format", "quepid"), "--out", CONVERT),
    "shadow report": Owns(("log", "--bounds", "watch.toml"), "--out", SHADOW_REPORT),
    "shadow run": Owns((*PAIR, "--count", "2", *SHADOW[2:]), "--out", SHADOW_LOG),
    "shadow receive": Owns((*SERVERS, *SHADOW), "--out", SHADOW_LOG, runs=False),
    "shadow mcp": Owns((*SERVERS, *SHADOW), "--out", SHADOW_LOG, runs=False),
    "mail-server": Owns(
        ("--dataset", "toy", "--arm", "fts5", *SHADOW[2:]), "--shadow-log", SHADOW_LOG, runs=False
    ),
    "mail index": Owns(("toy.mbox",), "--out", MAIL),
    "history add": Owns(("--dataset", "toy"), "--at", HISTORY),
    "migrate begin": Owns(("--serving", "fts5", "--policy", "mail.toml"), "--at", MIGRATION),
}
"""Folders that a command makes. ``init`` makes one too, and leaves it to people."""
ADDS = {
    "ci": (*LEFT,),
    "decompose": ("--control", "fts5", "--candidate", "tantivy", *LEFT),
    "load": ("--arm", "fts5", *LEFT),
    "mail-server": ("--dataset", "toy", "--arm", "fts5", *LEFT),
    "labels": ("pool.qrels", "--by", "ada", *LEFT),
    "selftest": (
        "--control", "fts5", "--policy", "policy/pairwise.toml", "--trials", "1", *LEFT,
    ),
    "shadow traffic": ("log", "--control", "fts5", "--candidate", "tantivy", *LEFT),
}  # fmt: skip
"""Commands that add to what ``harness run`` wrote, named by ``--from``."""
ASKED = ("beir/queries.jsonl", "beir/corpus.jsonl")
NEW = {
    "pool": ("--measure", "nDCG@10", "--size", "5", *PAIR),
    "judge": ("pool.qrels", "--machine", "judge.toml"),
    "panel settle": ("judged/pool.a.qrels", "judged/pool.b.qrels"),
    "history page": (),
    "queries from-log": ("beir/queries.jsonl", "--size", "20"),
    "queries pool": (*ASKED, "--arms", "fts5", "--depth", "2"),
    "tune": ("fts5", "--dataset", "beir", "--split", "test", "--search", "space.toml"),
    "table": ("build/toy/runs/fts5.parquet", "--qrels", "build/toy/data/qrels.trec"),
}
"""Commands that write a file, ``--out``."""
AGAIN = {"judge", "tune"}
"""Of them, those that replace a file of their own."""
IN_PLACE = {
    ("init", "folder"), ("judge", "file"), ("policy pin", "policy"),
    ("mail-server", "--token-file"),
    *((f"migrate {move}", "--at") for move in
      ("advance", "drill", "interleave", "observe", "rollback")),
}  # fmt: skip
"""What is changed where it lies, and must be what the command takes it for."""
READ = {
    "--arm", "--baseline", "--bounds", "--candidate-reading", "--log",
    "--dataset",
    "--machine", "--mailbox", "--policy",
    "--qrels", "--queries", "--reading", "--register", "--search", "--shadow",
    "--shadow-settings", "--switch-file", "--viewers", "corpus", "file", "folder",
    "files", "folders", "log", "logs", "path", "pool", "qrels", "queries", "run", "sample",
    "topics",
}  # fmt: skip
"""Options of these names are only read, but for those in the tables above."""
READ_LEFT = {
    "ask", "gate", "export", "history add", "migrate advance", "migrate drill",
    "migrate observe", "migrate status", "plan", "policy pin", "pool", "regress",
    "verify", "mail drop-fts5",
}  # fmt: skip
"""Commands whose ``--from`` is read: what ``harness run`` wrote."""
READ_AT = {"history page", "migrate status"}


def leaves(group: Any, names: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:  # noqa: ANN401  click's
    for name, found in sorted(group.commands.items()):
        if hasattr(found, "commands"):
            yield from leaves(found, (*names, name))
        else:
            yield " ".join((*names, name)), found


@cache
def command_tree() -> Any:  # noqa: ANN401  Typer keeps its own copy of click
    """Build the command line once: to read the types of all options takes a fifth of a second."""
    return typer.main.get_command(application())


def paths() -> set[tuple[str, str]]:
    """Name every option that takes a path, with its command."""
    return {
        (name, param.opts[0])
        for name, command in leaves(command_tree())
        for param in command.params
        if "Path" in str(param.type_descriptor.annotation)
    }


def words_of(name: str, to: str) -> list[str]:
    """Return a command with all its words but the option that names its folder."""
    owns = OWNED[name]
    return [*(owns.command or name).split(), *(word.format(to) for word in owns.words)]


CLICK_ARMS = ("fts5", "tantivy")
CLICKED_AT = datetime(2026, 1, 2, tzinfo=UTC)


def write_clicks(folder: Path, query: str, lists: int = 40, user: str = "u{}") -> None:
    """Write the log; every second list is turned around, and each candidate's document clicked."""
    folder.mkdir()
    log = ClickLog(folder)
    for at in range(lists):
        documents = ("d00", "d01") if at % 2 else ("d01", "d00")
        teams = (at % 2, 1 - at % 2)
        log.add(
            ShownList(
                f"l{at}", CLICKED_AT, query, CLICK_ARMS, documents, teams, user=user.format(at)
            )
        )
        log.add(Click(f"l{at}", "d00"))
    log.close()
