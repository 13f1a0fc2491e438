"""Tables of the commands: words that work, and what each of them writes, keeps and reads.

The commands are those of the program: a new path among their options is in one of the tables, or
``test_fuzzed.py`` is red.
"""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

import typer

from harness.cli import application
from harness.clicks.credit import Click, ClickLog, ShownList
from harness.core import folders

DATA = ("--dataset", "toy")
PAIR = ("--control", "fts5", "--candidate", "tantivy")
OWN = ("--control", "fts5", "--candidate", "{arm}")
FILES = ("beir/corpus.jsonl", "beir/queries.jsonl", "toy.qrels")
ADDRESS = "http://127.0.0.1:9"
SERVERS = ("--control", ADDRESS, "--candidate", ADDRESS, "--reading", "reading.toml")
JUDGED = ("judged/pool.a.qrels", "judged/pool.b.qrels")
AT = ("--at", "moved", "--policy", "mail.toml", "--from", "ran")
WORKS: dict[str, tuple[str, ...]] = {
    "arm check": ("{arm}",),
    "ask": ("balo", "--arm", "{arm}", *DATA),
    "ci": ("--from", "ran"),
    "clicks report": ("clicks",),
    "code ask": ("kept", "balo", "--arm", "code-words"),
    "code index": ("kept", "--arm", "code-words"),
    "code serve": ("kept", "--arm", "fts5"),
    "stage compare": DATA,
    "compare": (f"{ADDRESS}/?q={{query}}", ADDRESS, "--log", "beir/queries.jsonl"),
    "convert": ("toy", "--format", "rank-eval", "--out", "{new}"),
    "decompose": (*DATA, *OWN),
    "docs ask": ("kept", "balo", "--arm", "documents-bm25"),
    "docs index": ("kept", "--arm", "documents-bm25"),
    "docs serve": ("kept", "--arm", "fts5"),
    "export": (*DATA, "--control", "fts5", "--out", "{new}"),
    "gate": ("--policy", "policy/toy.toml", *DATA),
    "history add": (),
    "history page": (),
    "import beir": ("beir", "--name", "{new}"),
    "import jsonl": (*FILES, "--name", "{new}"),
    "import mbox": (
        "toy.mbox", "--name", "{new}", "--queries", "beir/queries.jsonl", "--qrels", "toy.qrels",
    ),
    "import ir-datasets": ("absent", "--name", "{new}"),
    "import ratings": ("case.csv", FILES[0], "--format", "quepid", "--name", "{new}"),
    "import trec": ("topics.tsv", "toy.qrels", "beir/corpus.jsonl", "--name", "{new}"),
    "stage index": (*DATA, "--arm", "{arm}"),
    "init": ("{new}",),
    "judge": ("pool.qrels", "--machine", "judge.toml"),
    "labels": ("pool.qrels", "--by", "ada", *DATA),
    "load": (*DATA, "--arm", "{arm}", "--rate", "50"),
    "mail-server": (*DATA, "--arm", "{arm}"),
    "table": ("build/toy/runs/fts5.parquet", "--qrels", "build/toy/data/qrels.trec"),
    "migrate advance": AT,
    "migrate begin": ("--serving", "fts5", "--at", "{new}", "--policy", "mail.toml"),
    "migrate drill": ("--arm", "fts5", "--at", "moved", "--from", "ran"),
    "migrate interleave": ("--arms", "fts5,tantivy", "--reason", "to see", "--at", "moved"),
    "migrate observe": AT,
    "migrate rollback": ("--at", "moved"),
    "migrate status": AT,
    "notes ask": ("kept", "balo", "--arm", "writing-stems"),
    "notes index": ("kept", "--arm", "writing-stems"),
    "notes serve": ("kept", "--arm", "fts5"),
    "panel report": JUDGED,
    "panel settle": (*JUDGED, "--out", "{new}"),
    "plan": ("--policy", "policy/toy.toml", *DATA),
    "policy pin": ("policy/toy.toml", *DATA),
    "pool": (*DATA, *PAIR, "--measure", "nDCG@10", "--size", "5", "--out", "{new}"),
    "stage prepare": DATA,
    "queries drift": ("sample.jsonl", "beir/queries.jsonl"),
    "queries pool": (
        "beir/queries.jsonl", "beir/corpus.jsonl", "--arms", "fts5,{arm}", "--depth", "2",
        "--out", "{new}",
    ),
    "queries from-log": ("beir/queries.jsonl", "--size", "20", "--out", "{new}"),
    "race": DATA,
    "regress": ("--baseline", "ran", "--policy", "policy/regress.toml", *DATA),
    "stage replay": (*DATA, "--arm", "{arm}"),
    "reproduce": DATA,
    "run": (*DATA, "--arms", "fts5,{arm}", "--control", "fts5", "--out", "{new}"),
    "stage score": DATA,
    "selftest": (*DATA, "--trials", "1"),
    "serve": ("reports",),
    "shadow receive": (*SERVERS, "--out", "{new}", "--shadow-settings", "shadow.toml"),
    "shadow mcp": (*SERVERS, "--out", "{new}", "--shadow-settings", "shadow.toml"),
    "shadow report": ("log", "--out", "{new}"),
    "shadow run": (
        *DATA, *OWN, "--out", "{new}", "--count", "1", "--shadow-settings", "shadow.toml",
    ),
    "shadow traffic": ("log", *DATA, *PAIR),
    "mail index": ("toy.mbox", "--out", "{new}", "--arm", "mail-fts5"),
    "mail drop-fts5": ("--mailbox", "absent"),
    "tune": (
        "{arm}", "--dataset", "beir", "--split", "test", "--search", "space.toml",
        "--out", "{new}.toml",
    ),
    "verify": (),
}  # fmt: skip
"""Words of each command that work, or that are refused at the end of their way; see ``filled``."""
OWNED = {
    "run --out": folders.RUN,
    "run --log": folders.EXPERIMENT_LOG,
    "compare --out": folders.COMPARISON,
    "export --out": folders.EXPORT,
    "convert --out": folders.CONVERT,
    "shadow report --out": folders.SHADOW_REPORT,
    "shadow run --out": folders.SHADOW_LOG,
    "shadow receive --out": folders.SHADOW_LOG,
    "shadow mcp --out": folders.SHADOW_LOG,
    "mail-server --shadow-log": folders.SHADOW_LOG,
    "mail index --out": folders.MAIL,
    "history add --at": folders.HISTORY,
    "migrate begin --at": folders.MIGRATION,
}
"""Folders that a command makes, and who owns them. ``init`` makes one too, and leaves it."""
ADDS = ("ci", "decompose", "load", "mail-server", "labels", "selftest", "shadow traffic")
"""Commands that add to what ``harness run`` wrote, named by ``--from``."""
NEW = (
    "pool", "judge", "panel settle", "history page", "queries from-log", "queries pool", "tune",
    "table",
)  # fmt: skip
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
    "--arm", "--baseline", "--bounds", "--candidate-reading", "--dataset", "--log", "--machine",
    "--mailbox", "--policy", "--qrels", "--queries", "--reading", "--register", "--search",
    "--shadow", "--shadow-settings", "--switch-file", "--viewers", "corpus", "file", "files",
    "folder", "folders", "log", "logs", "path", "pool", "qrels", "queries", "run", "sample",
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


NEWS = count()


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


def filled(words: tuple[str, ...], arm: str = "tantivy") -> list[str]:
    """Fill in an arm, and a name that nothing has yet."""
    return [word.replace("{new}", f"new{next(NEWS)}").replace("{arm}", arm) for word in words]


def given(words: Sequence[str], option: str, value: str) -> list[str]:
    """Return words in which an option has a value: in its place, or at the end."""
    if option not in words:
        return [*words, option, value]
    place = words.index(option) + 1
    return [*words[:place], value, *words[place + 1 :]]


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
