"""A folder of notes, kept searchable, and search in it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from sqlite3 import Connection
from typing import Any

from harness.core.errors import BadFile
from harness_engines.kept.headings import headings
from harness_engines.kept.index import FileReader, LiveFolder
from harness_engines.stacks.writing.arm import Writing
from harness_engines.stacks.writing.planner import WritingContext
from harness_engines.stacks.writing.retrieval import Retriever, WritingSettings
from harness_engines.stacks.writing.store import INSERT, TABLES, rows

SUFFIXES = frozenset({".md", ".markdown", ".txt", ".rst", ".org"})
BIGGEST = 16 << 20
VERSION = "5"
TRIGGERS = """
CREATE TRIGGER taken AFTER INSERT ON chunk BEGIN
  INSERT INTO search (rowid, title, text)
    VALUES (new.id, coalesce(new.indexed_title, new.title), coalesce(new.indexed_text, new.text));
END;
CREATE TRIGGER given_up AFTER DELETE ON chunk BEGIN
  INSERT INTO search (search, rowid, title, text)
    VALUES ('delete', old.id, coalesce(old.indexed_title, old.title),
      coalesce(old.indexed_text, old.text));
END;
"""
FIRST = 2_000
"""Characters in which a title is looked for."""


def reader(settings: WritingSettings) -> FileReader:
    """Read notes; what is kept of one are its chunks, and triggers keep its words in step."""

    def put(db: Connection, path: str, data: bytes) -> str:
        title, rest = title_of(path, text_of(path, data))
        db.executemany(INSERT, rows(path, title, rest, settings.chunk_characters))
        return ""

    return FileReader(
        suffixes=SUFFIXES,
        biggest=BIGGEST,
        identity=f"notes {VERSION} {settings.tokenize} {settings.chunk_characters}",
        tables=TABLES.format(tokenize=settings.tokenize) + TRIGGERS,
        put=put,
        drop=lambda db, path: db.execute("DELETE FROM chunk WHERE doc_id = ?", (path,)),
    )


def text_of(path: str, data: bytes) -> str:
    """Decode a note: UTF-8, or UTF-16 where a mark says so."""
    wide = data.startswith((b"\xff\xfe", b"\xfe\xff"))
    try:
        text = data.decode("utf-16" if wide else "utf-8-sig")
    except UnicodeDecodeError as exc:
        line = data[: exc.start].count(b"\n") + 1
        raise BadFile(path, f"is not UTF-8 ({exc.reason})", "Save it as UTF-8", line) from exc
    return text.replace("\0", "\ufffd")


def title_of(path: str, text: str) -> tuple[str, str]:
    """Take the first heading near the top for the title, else the name of the file.

    The second is the text below it: a heading that begins the note is shown as its title alone.
    """
    name = PurePosixPath(path)
    first = next(iter(headings(name.suffix.lower(), text[:FIRST])), None)
    if first is None:
        return name.stem, text
    begins = not text[: first.start].strip()
    return first.title, text[first.end :] if begins else text


def follow(arm: Writing, root: Path, place: Path) -> LiveFolder[Retriever]:
    """Follow a folder of notes with the settings of an arm of this stack."""
    embedder = arm.embedder()

    @contextmanager
    def opened(db: Connection) -> Iterator[Retriever]:
        yield Retriever.of(db, arm.settings, embedder, like=True)

    return LiveFolder(root, place, reader(arm.settings), opened)


def answer(search: Retriever, given: Mapping[str, Any]) -> Mapping[str, Any]:
    """Answer what a command or a tool was given."""
    named = {name: given[name] for name in ("limit", "budget", "explain")}
    return search.retrieve(given["queryText"], context=context_of(given), **named)


def context_of(given: Mapping[str, Any]) -> WritingContext | None:
    """Read what the writer is doing; None where nothing is said of it."""
    said = [given[name] for name in ("title", "selection", "project")]
    return WritingContext(*said) if any(said) else None
