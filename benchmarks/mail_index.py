"""What message search adds to the building of its indexes, in time and memory: Markdown tables.

    python3 run.py python benchmarks/mail_index.py --messages 100000

Each way builds an index of the same messages with the same fields, from messages that lie in
memory unless the row says otherwise; they take turns, in an order that moves on by one each round.
The direct loops get values that are ready, or make them as the stack does. Memory is what the
process grows by at most while it builds (Linux).
"""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter_ns
from typing import Any, NamedTuple

import numpy as np
import tantivy

from benchmarks.mail_corpus import (
    TANTIVY_WEIGHTS,
    Ratio,
    filled,
    messages,
    tantivy_over,
    with_projects,
)
from engines.lexical.analysis import analyzer
from engines.stacks.agent_mail.contract.lifecycle import Change, DocChange, Message
from engines.stacks.agent_mail.sqlite import letters, store
from engines.stacks.agent_mail.sqlite.letters import Kind, identified
from engines.stacks.agent_mail.tantivy import files as tantivy_files
from engines.stacks.agent_mail.tantivy import index as tantivy_index
from engines.stacks.agent_mail.tantivy.index import INDEX, Written
from engines.stacks.agent_mail.tantivy.schema import ANALYZER, document, fields, schema

READY, MADE = "Tantivy: add_document, values ready", "Tantivy: add_document, values made"
STACK, REBUILT = "stack over Tantivy", "stack over Tantivy, from the store"
ROWS, ROWS_MADE = "SQLite: executemany, rows ready", "SQLite: executemany, rows made"
FTS5 = "stack over FTS5"
UPDATE, FTS5_UPDATE = "Tantivy, 1,000 rewritten", "FTS5, 1,000 rewritten"
UPDATED = 1_000
RATIOS = (
    Ratio("speed of the stack by the loop, values made", MADE, STACK, "at least 0.9"),
    Ratio("speed of the stack by the loop, values ready", READY, STACK, ""),
    Ratio("speed of the stack from its store by the loop, values made", MADE, REBUILT, ""),
    Ratio("speed of the stack by executemany, rows made", ROWS_MADE, FTS5, "at least 0.8"),
    Ratio("speed of the stack by executemany, rows ready", ROWS, FTS5, ""),
    Ratio("time of an update by that of a rebuild, Tantivy", UPDATE, REBUILT, ""),
    Ratio("time of an update by that of filling, FTS5", FTS5_UPDATE, FTS5, ""),
)
TABLES = {
    "agents": "id, project_id, name, identifiers",
    "messages": "id, project_id, sender_id, thread_id, subject, body, identifiers,"
    " importance, ack_required, created_ts",
    "recipients": "message_id, agent_id, kind, position",
}
"""Columns of each, in the order of ``Rows``."""

Work = Callable[[Path], object]


class Rows(NamedTuple):
    """What plain SQL writes into each table."""

    agents: list[tuple[Any, ...]]
    messages: list[tuple[Any, ...]]
    recipients: list[tuple[Any, ...]]

    @classmethod
    def of(cls, given: Sequence[Message]) -> Rows:
        """Take messages apart, and number their agents."""
        numbers: dict[tuple[int, str], int] = {}
        found = cls([], [], [])
        for m in given:
            names = dict.fromkeys(m.recipients)
            for name in (m.sender_name, *names):
                numbers.setdefault((m.project_id, name), len(numbers) + 1)
            sender = numbers[m.project_id, m.sender_name]
            texts = m.thread_id, m.subject, m.body, identified(m.subject, m.body)
            rest = m.importance.value, int(m.ack_required), m.created_ts
            found.messages.append((m.message_id, m.project_id, sender, *texts, *rest))
            found.recipients.extend(
                (m.message_id, numbers[m.project_id, name], Kind.TO.value, at)
                for at, name in enumerate(names)
            )
        found.agents.extend((at, *of, identified(of[1])) for of, at in numbers.items())
        return found


def by_loop(add: Callable[[tantivy.IndexWriter, tantivy.Schema], None]) -> Work:
    """Build with Tantivy alone."""

    def build(folder: Path) -> None:
        folder.mkdir()
        index = tantivy.Index(schema(), path=str(folder))
        index.register_tokenizer(ANALYZER, analyzer("none"))
        writer = index.writer(Written().heap_bytes, Written().threads)
        add(writer, index.schema)
        writer.commit()
        writer.wait_merging_threads()

    return build


def by_rows(given: Sequence[Message], ready: Rows | None) -> Work:
    """Fill the same tables, with the same triggers, by one statement each."""

    def fill(path: Path) -> None:
        rows = ready or Rows.of(given)
        with store.create(path) as made:
            with_projects(made, given)
            with made.writing() as db:
                for (table, names), values in zip(TABLES.items(), rows, strict=True):
                    marks = ", ".join("?" * len(values[0]))
                    db.executemany(f"INSERT INTO {table} ({names}) VALUES ({marks})", values)  # noqa: S608  our own text

    return fill


def ways(given: Sequence[Message], kept: Path) -> dict[str, Work]:
    """Give all that is timed; ``kept`` is a store of the messages."""
    values = [fields(message, TANTIVY_WEIGHTS) for message in given]

    def ready(writer: tantivy.IndexWriter, of: tantivy.Schema) -> None:
        for value in values:
            writer.add_document(tantivy.Document.from_dict(value, of))

    def made(writer: tantivy.IndexWriter, of: tantivy.Schema) -> None:
        for message in given:
            writer.add_document(document(message, of, TANTIVY_WEIGHTS))

    def rebuilt(folder: Path) -> None:
        with store.opened(kept) as opened:
            tantivy_over(folder, opened).rebuild()

    return {
        READY: by_loop(ready),
        MADE: by_loop(made),
        STACK: lambda folder: tantivy_index.built(folder, given, Written(), TANTIVY_WEIGHTS),
        REBUILT: rebuilt,
        ROWS: by_rows(given, Rows.of(given)),
        ROWS_MADE: by_rows(given, None),
        FTS5: lambda path: filled(path, given),
    }


def updates(given: Sequence[Message], kept: Path, built: Path) -> Iterator[tuple[str, Work, str]]:
    """Rewrite messages all over both indexes, and say how much was written."""
    some = [replace(m, body=f"{m.body} Again.") for m in given[:: len(given) // UPDATED][:UPDATED]]
    changes = [DocChange(Change.UPSERT, message.message_id, message) for message in some]

    def tantivy_update(_: Path) -> None:
        with store.opened(kept) as opened:
            tantivy_over(built, opened).update_incremental(changes)

    def fts5_update(_: Path) -> None:
        with store.opened(kept, write=True) as opened, opened.writing() as db:
            for message in some:
                letters.update(db, message, {})

    before = {segment.name for segment in tantivy_files.segments(built / INDEX)}
    start = perf_counter_ns()
    tantivy_update(built)
    took = (perf_counter_ns() - start) / 1e6
    new = [s for s in tantivy_files.segments(built / INDEX) if s.name not in before]
    told = f"{sum(s.documents for s in new):,} documents written, in {took:.0f} ms the first time"
    yield UPDATE, tantivy_update, told
    yield FTS5_UPDATE, fts5_update, f"{len(some):,} rows written"


def peak(work: Callable[[], object]) -> tuple[float, float]:
    """Run it; give milliseconds, and MB by which the process grew at most meanwhile."""
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    before, start = _status("VmRSS"), perf_counter_ns()
    work()
    return (perf_counter_ns() - start) / 1e6, _status("VmHWM") - before


def _status(name: str) -> float:
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith(name)) / 1_000


def size(path: Path) -> float:
    """MB of a file, or of all files below a folder."""
    files = path.rglob("*") if path.is_dir() else [path]
    return sum(one.stat().st_size for one in files if one.is_file()) / 1e6


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description="The building of message search's indexes.")
    parser.add_argument("--messages", type=int, required=True)
    parser.add_argument("--rounds", type=int, default=5, help="At least 5.")
    asked = parser.parse_args()
    if asked.rounds < 5:  # noqa: PLR2004  as the help says
        parser.error("a median of fewer than 5 says little")
    given = messages(asked.messages)
    taken: dict[str, list[float]] = {}
    grown: dict[str, list[float]] = {}
    sizes: dict[str, float] = {}
    with TemporaryDirectory() as name:
        folder = Path(name)
        filled(folder / "kept.db", given)
        with store.opened(folder / "kept.db") as opened:
            tantivy_over(folder / "kept", opened).rebuild()
        found = ways(given, folder / "kept.db")
        told = dict.fromkeys(found, "")
        for way, work, words in updates(given, folder / "kept.db", folder / "kept"):
            found[way], told[way] = work, words
        names = list(found)
        for turn in range(asked.rounds):
            for at in range(len(names)):
                way, path = names[(turn + at) % len(names)], folder / "built"
                ms, mb = peak(lambda work=found[way], path=path: work(path))  # type: ignore[misc]
                taken.setdefault(way, []).append(ms)
                grown.setdefault(way, []).append(mb)
                if path.exists():
                    sizes[way] = size(path)
                    shutil.rmtree(path) if path.is_dir() else path.unlink()
    columns = {way: np.array(taken[way]) for way in names}
    lines = [
        "| way | median s | messages/s | grown by MB | index MB | |",
        "|---|---|---|---|---|---|",
    ]
    for way, column in columns.items():
        count = UPDATED if way in {UPDATE, FTS5_UPDATE} else len(given)
        speed = count / np.median(column) * 1e3
        shown = f"{np.median(column) / 1e3:.2f} | {speed:,.0f} | {np.median(grown[way]):.0f}"
        lines.append(f"| {way} | {shown} | {sizes.get(way, 0):.1f} | {told[way]} |")
    lines += [
        "",
        "| asked | ratio | of | whole | median of each | target |",
        "|---|---|---|---|---|---|",
    ]
    lines += [ratio.row(f"{len(given):,} messages", columns) for ratio in RATIOS]
    print(*lines, sep="\n")  # noqa: T201  the output


if __name__ == "__main__":
    main()
