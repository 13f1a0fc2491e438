"""Formats of query logs, line by line: CSV, JSON lines, access logs and JSON-RPC messages of MCP.

A line is read by itself, so one that is cut off costs itself alone. Bytes that are not UTF-8 are
read as Windows-1252, and counted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from harness.core.errors import BadFile, HarnessError, UnknownName
from harness.core.formats import csv_row, json_of
from harness.core.reading import Malformed, not_text, raw_lines
from harness.corpus.querylog.clean import Entry

TEXT = ("query", "q", "text", "search", "keywords")
RESULTS = ("results", "hits", "total", "num_results")
SESSION = ("session", "session_id", "user", "user_id")
"""Names that are tried where none is given, in this order."""
DELIMITERS = {".csv": ",", ".tsv": "\t"}
SUFFIXES = {".csv": "csv", ".tsv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl"}
_COMMON = r'(?P<client>\S+) \S+ .*?\[[^]]*\] "[A-Z]+ (?P<target>\S+)[^"]*" (?P<status>\d{3}) \S+'
ACCESS = {
    "common": re.compile(_COMMON),
    "combined": re.compile(rf'{_COMMON} "[^"]*" "(?P<agent>[^"]*)"'),
    "vhost": re.compile(rf'\S+ {_COMMON} "[^"]*" "(?P<agent>[^"]*)"'),
}
"""Access logs by the name of their pattern; ``combined`` is what nginx writes by default."""
FORMATS = ("csv", "jsonl", "mcp", *ACCESS)

Read = Callable[[str], Entry | None]
"""Reads a line; None where it has no query. Raises ``ValueError`` where it is malformed."""


@dataclass(frozen=True, slots=True)
class Fields:
    """Names of the parts of an entry; empty where they are to be found."""

    text: str = ""
    results: str = ""
    session: str = ""


class Line:
    """One line of a log: its entry, or None where it has none or is broken."""

    __slots__ = ("broken", "entry", "foreign", "number")

    def __init__(self, number: int, entry: Entry | None, *, broken: bool, foreign: bool) -> None:
        self.number = number
        self.entry = entry
        self.broken = broken
        self.foreign = foreign


def format_of(path: Path, given: str) -> str:
    """Name the format of a log: as given, else by the end of its name.

    Raises:
        UnknownName: the format is unknown.
        HarnessError: none is given, and the name does not tell.
    """
    if given and given not in FORMATS:
        raise UnknownName("format of a log", given, FORMATS)
    stem = Path(path.name.removesuffix(".gz"))
    found = given or SUFFIXES.get(stem.suffix, "")
    if not found:
        raise HarnessError(
            f"{path}: its name does not tell its format; add --format with one of"
            f" {', '.join(FORMATS)}"
        )
    return found


def lines(path: Path, kind: str, fields: Fields) -> Iterator[Line]:
    """Read a log of a format of ``FORMATS``, a line at a time.

    Raises:
        BadFile: it cannot be read, or a CSV file has no column of that name.
    """
    read: Read | None = None if kind == "csv" else _reader(kind, fields)
    for number, raw in raw_lines(path):
        if number == 1 and (problem := not_text(raw)):
            raise BadFile(path, problem, "Convert or unpack it first.", 1)
        text, foreign = decoded(raw)
        text = text.strip("\r\n\ufeff")
        if not text.strip():
            continue
        if read is None:
            read = _table(path, text, fields)
            continue
        try:
            entry, broken = (None, True) if "\0" in text else (read(text), False)
        except ValueError:
            entry, broken = None, True
        yield Line(number, entry, broken=broken, foreign=foreign)


def decoded(raw: bytes) -> tuple[str, bool]:
    """Read bytes as UTF-8, else as Windows-1252; say whether it was the latter."""
    try:
        return raw.decode("utf-8"), False
    except UnicodeDecodeError:
        return raw.decode("cp1252", errors="replace"), True


def _reader(kind: str, fields: Fields) -> Read:
    if kind == "jsonl":
        return lambda text: _of_object(json_of(text), fields)
    if kind == "mcp":
        return lambda text: _of_call(json_of(text), fields)
    pattern = ACCESS[kind]
    return lambda text: _of_request(pattern, text, fields)


def _table(path: Path, head: str, fields: Fields) -> Read:
    """Read the head of a CSV file, and give what reads its rows."""
    stem = Path(path.name.removesuffix(".gz"))
    comma = DELIMITERS.get(stem.suffix) or max(",;\t", key=head.count)
    comma = ";" if comma == "," and "," not in head and ";" in head else comma
    names = [name.strip() for name in _head(path, head, comma)]
    wanted = (fields.text,) if fields.text else TEXT
    used = {*wanted, fields.session, fields.results, *SESSION, *RESULTS} - {""}
    if twice := [name for name in dict.fromkeys(names) if name in used and names.count(name) > 1]:
        raise BadFile(path, f"the column {twice[0]} is there twice", "Rename one of them.", 1)
    if not set(wanted) & set(names):
        raise BadFile(
            path,
            f"no column {' or '.join(wanted)} (columns: {', '.join(names)})",
            "Name the column of the query: --text COLUMN.",
            1,
        )

    def row(text: str) -> Entry | None:
        values = csv_row(text, comma)
        if len(values) != len(names):
            raise ValueError("another number of columns")
        return _of_object(dict(zip(names, values, strict=True)), fields)

    return row


def _head(path: Path, line: str, comma: str) -> list[str]:
    if "\r" in line:
        hint = "Convert it: tr '\\r' '\\n' < OLD > NEW"
        raise BadFile(path, "its lines end by a carriage return alone", hint, 1)
    if "\0" in line:
        raise BadFile(path, "it holds a NUL byte, so it is UTF-16 or no text", "Convert it.", 1)
    try:
        return csv_row(line, comma)
    except Malformed as exc:
        raise BadFile(path, f"its head is not CSV ({exc})", "Close the quote.", 1) from exc


def _of_object(found: Any, fields: Fields) -> Entry | None:  # noqa: ANN401  what JSON holds
    if not isinstance(found, dict):
        raise ValueError("not an object")  # noqa: TRY004  a fault of the line
    text = _first(found, fields.text, TEXT)
    if text is not None and not isinstance(text, str):
        raise ValueError("the query is not a text")
    if not text:
        return None
    session = _first(found, fields.session, SESSION)
    results = _number(_first(found, fields.results, RESULTS))
    return Entry(text, results, "" if session is None else str(session))


def _of_call(found: Any, fields: Fields) -> Entry | None:  # noqa: ANN401  what JSON holds
    """Read a call of a tool; other messages have no query."""
    if not isinstance(found, dict):
        raise ValueError("not an object")  # noqa: TRY004  a fault of the line
    params = found.get("params")
    if found.get("method") != "tools/call" or not isinstance(params, dict):
        return None
    return _of_object(params.get("arguments") or {}, fields)


def _of_request(pattern: re.Pattern[str], line: str, fields: Fields) -> Entry | None:
    found = pattern.match(line)
    if found is None:
        raise ValueError("not a line of this pattern")
    parts = urlsplit(found["target"])
    pairs = dict(reversed(parse_qsl(parts.query, encoding="latin-1", keep_blank_values=True)))
    text = _first(pairs, fields.text, TEXT)
    if not text:
        return None
    agent = found.groupdict().get("agent") or ""
    results = _number(pairs.get(fields.results)) if fields.results else None
    who = pairs.get(fields.session, "") if fields.session else f"{found['client']} {agent}"
    return Entry(_typed(text), results, who, int(found["status"]), agent)


def _typed(text: str) -> str:
    """Read the bytes of a parameter, which were taken for Latin-1, in their own encoding."""
    try:
        return decoded(text.encode("latin-1"))[0]
    except UnicodeEncodeError:
        return text


def _first(found: Mapping[str, Any], given: str, names: Sequence[str]) -> Any:  # noqa: ANN401
    """Give the value of a name with dots for what lies deeper; else of the first that is there."""
    if not given:
        return next((found[name] for name in names if found.get(name) is not None), None)
    value: Any = found
    for part in (given,) if given in found else given.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value


def _number(value: Any) -> int | None:  # noqa: ANN401  what JSON holds
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, list):
        return len(value)
    try:
        return max(0, int(value))
    except (TypeError, ValueError, OverflowError):
        return None
