"""A folder of notes, kept searchable: chunks in FTS5, given up and taken in file by file."""

from __future__ import annotations

import re
import sqlite3
from dataclasses import dataclass
from pathlib import PurePosixPath

from engines.stacks.writing.arm import Settings
from engines.stacks.writing.store import INSERT, TABLES, rows
from harness.core.errors import BadFile

SUFFIXES = frozenset({".md", ".markdown", ".txt", ".rst", ".org"})
BIGGEST = 16 << 20
VERSION = "3"
_HEADING = re.compile(r"^(?:#{1,6}[ \t]+|\*+[ \t]+|title:[ \t]*)(\S.*?)[ \t#]*$", re.MULTILINE)
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


@dataclass(frozen=True, slots=True)
class Notes:
    """Reads notes; what is kept of one are its chunks."""

    settings: Settings

    @property
    def suffixes(self) -> frozenset[str]:
        return SUFFIXES

    @property
    def biggest(self) -> int:
        return BIGGEST

    @property
    def identity(self) -> str:
        given = self.settings
        return f"notes {VERSION} {given.tokenize} {given.chunk_characters}"

    @property
    def models(self) -> str:
        return ""

    @property
    def tables(self) -> str:
        """The tables of a store; triggers keep its words in step with its chunks."""
        return TABLES.format(tokenize=self.settings.tokenize) + TRIGGERS

    def put(self, db: sqlite3.Connection, path: str, data: bytes) -> None:
        text = text_of(path, data)
        title, rest = title_of(path, text)
        db.executemany(INSERT, rows(path, title, rest, self.settings.chunk_characters))

    def drop(self, db: sqlite3.Connection, path: str) -> None:
        db.execute("DELETE FROM chunk WHERE doc_id = ?", (path,))

    def complete(self, db: sqlite3.Connection) -> None:
        """Make nothing: there are no models."""


def text_of(path: str, data: bytes) -> str:
    """Decode a note: UTF-8, or UTF-16 where a mark says so.

    Raises:
        BadFile: it is neither.
    """
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
    match = _HEADING.search(text, 0, FIRST)
    if match is None:
        return PurePosixPath(path).stem, text
    begins = not text[: match.start()].strip()
    return match[1], text[match.end() :] if begins else text
