"""Query logs: formats, cleaning, masks of personal data, and a tally."""

import csv
import re
import unicodedata
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlsplit

from harness.core.errors import BadFile, HarnessError, UnknownName
from harness.core.formats import json_of
from harness.core.printable import FORBIDDEN
from harness.core.reading import not_text, raw_lines

LONGEST = 512
"""Characters; what is longer was pasted, and is not typed by a person."""
SESSIONS = 100_000
"""Sessions whose last query is remembered; beyond, the one longest silent is forgotten."""
ROBOT = re.compile(r"(?i)bot\b|crawl|spider|slurp|curl/|wget/|python-requests|monitor|uptime")


class Left(StrEnum):
    """Why a line is not counted."""

    BROKEN = "the line is cut off or malformed"
    NO_QUERY = "it has no query"
    ERROR = "the server reported an error"
    ROBOT = "a robot sent it"
    LONG = f"it is longer than {LONGEST} characters"
    WORDLESS = "it has no letter and no digit"
    REPEATED = "its session sent the same query just before"


class LogEntry(NamedTuple):
    """One request of a log."""

    text: str
    results: int | None = None
    """Documents that were shown; None where the log does not say."""
    session: str = ""
    """Whoever sent it; empty where the log does not say."""
    status: int = 200
    agent: str = ""


def plain(text: str) -> str:
    """Compose characters (NFC), drop control characters and trim white space."""
    return " ".join(FORBIDDEN.sub(" ", unicodedata.normalize("NFC", text)).split())


class Cleaner:
    """Applies the rules in the order of ``Left``; remembers sessions within a bound."""

    def __init__(self) -> None:
        self._last: OrderedDict[str, str] = OrderedDict()
        self.sessions = 0
        """Sessions that were seen; one that was forgotten counts once more."""

    def left(self, entry: LogEntry) -> Left | None:
        """Return why an entry with a ``plain`` text is left out; None where it counts."""
        if not entry.text:
            return Left.NO_QUERY
        if entry.status >= 400:  # noqa: PLR2004  HTTP's errors begin here
            return Left.ERROR
        if ROBOT.search(entry.agent):
            return Left.ROBOT
        if len(entry.text) > LONGEST:
            return Left.LONG
        if not any(map(str.isalnum, entry.text)):
            return Left.WORDLESS
        return Left.REPEATED if self._repeats(entry) else None

    def _repeats(self, entry: LogEntry) -> bool:
        if not entry.session:
            return False
        known = self._last.pop(entry.session, None)
        self.sessions += known is None
        self._last[entry.session] = entry.text
        if len(self._last) > SESSIONS:
            self._last.popitem(last=False)
        return known == entry.text


TEXT = ("query", "q", "text", "search", "keywords", "search_term", "search_query", "term")
RESULTS = ("results", "hits", "total", "num_results")
SESSION = ("session", "session_id", "user", "user_id")
AGENT = ("user_agent", "User-Agent", "useragent", "http_user_agent", "agent")
STATUS = ("status", "status_code", "http_status")
"""Names that are tried where none is given, in this order."""
OK = 200
SUFFIXES = {".csv": "csv", ".tsv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl"}
_COMMON = (
    r'(?P<client>\S++) \S++ [^\[]*+\[[^]]*+\] "[A-Z]++ (?P<target>[^\s"]++)[^"]*+"'
    r" (?P<status>\d{3}) \S++"
)
ACCESS = {
    "common": re.compile(f"^{_COMMON}"),
    "combined": re.compile(rf'^{_COMMON} "[^"]*" "(?P<agent>[^"]*)"'),
    "vhost": re.compile(rf'^\S++ {_COMMON} "[^"]*" "(?P<agent>[^"]*)"'),
}
"""Access logs by the name of their pattern; ``combined`` is what nginx writes by default."""
FORMATS = ("csv", "jsonl", "mcp", *ACCESS)

Read = Callable[[str], LogEntry | None]
"""Reads a line; None where it has no query. Raises ``ValueError`` where it is malformed."""


@dataclass(frozen=True, slots=True)
class Fields:
    """Names of the parts of an entry; empty where they are to be found."""

    text: str = ""
    results: str = ""
    session: str = ""


class LogLine(NamedTuple):
    """One line of a log: its entry, or why it has none."""

    number: int
    entry: LogEntry | Left
    foreign: bool = False


def format_of(path: Path, given: str) -> str:
    """Name the format of a log: as given, else by the end of its name."""
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


def lines(path: Path, kind: str, fields: Fields) -> Iterator[LogLine]:
    """Read a log of a format of ``FORMATS``, a line at a time."""
    read: Read | None = None
    for number, raw in raw_lines(path):
        if number == 1 and (problem := not_text(raw)):
            raise BadFile(path, problem, "Convert or unpack it first.", 1)
        text, foreign = decoded(raw)
        text = text.strip("\r\n\ufeff")
        if not text.strip():
            continue
        if read is None:
            read = _table(path, text, fields) if kind == "csv" else partial(_entry, kind, fields)
            if kind == "csv":
                continue
        entry: LogEntry | Left = Left.BROKEN
        with suppress(ValueError, csv.Error):
            if "\0" not in text:
                entry = read(text) or Left.NO_QUERY
        yield LogLine(number, entry, foreign)


def decoded(raw: bytes) -> tuple[str, bool]:
    """Read bytes as UTF-8, else as Windows-1252; say whether it was the latter."""
    try:
        return raw.decode("utf-8"), False
    except UnicodeDecodeError:
        return raw.decode("cp1252", errors="replace"), True


def _entry(kind: str, fields: Fields, text: str) -> LogEntry | None:
    if kind in ACCESS:
        request = ACCESS[kind].match(text)
        if request is None:
            raise ValueError("not a line of this pattern")
        query = urlsplit(request["target"]).query
        pairs = dict(reversed(parse_qsl(query, encoding="latin-1", keep_blank_values=True)))
        typed = _first(pairs, fields.text, TEXT)
        if not typed:
            return None
        agent = request.groupdict().get("agent") or ""
        results = _number(pairs.get(fields.results)) if fields.results else None
        who = pairs.get(fields.session, "") if fields.session else f"{request['client']} {agent}"
        return LogEntry(_typed(typed), results, who, int(request["status"]), agent)
    found = json_of(text)
    if kind == "mcp" and isinstance(found, dict):  # only calls of tools have a query
        called = found.get("method") == "tools/call" and isinstance(found.get("params"), dict)
        found = (found["params"].get("arguments") or {}) if called else {}
    return _of_object(found, fields)


def _table(path: Path, head: str, fields: Fields) -> Read:
    """Read the head of a CSV file, and give what reads its rows."""
    tabs = path.name.removesuffix(".gz").endswith(".tsv")
    comma = "\t" if tabs else max(",;\t", key=head.count)
    try:
        (first,) = csv.reader([head], delimiter=comma, strict=True)
    except csv.Error as exc:
        raise BadFile(path, f"no CSV ({exc})", "Close the quote; end lines by LF.", 1) from exc
    names = [name.strip() for name in first]
    wanted = (fields.text,) if fields.text else TEXT
    used = {*wanted, fields.session, fields.results, *SESSION, *RESULTS, *AGENT, *STATUS} - {""}
    if twice := [name for name in dict.fromkeys(names) if name in used and names.count(name) > 1]:
        raise BadFile(path, f"the column {twice[0]} is there twice", "Rename one of them.", 1)
    if not set(wanted) & set(names):
        raise BadFile(
            path,
            f"no column {' or '.join(wanted)} (columns: {', '.join(names)})",
            "Name the column of the query: --text COLUMN.",
            1,
        )

    def row(text: str) -> LogEntry | None:
        (values,) = csv.reader([text], delimiter=comma, strict=True)
        if len(values) != len(names):
            raise ValueError("another number of columns")
        return _of_object(dict(zip(names, values, strict=True)), fields)

    return row


def _of_object(found: Any, fields: Fields) -> LogEntry | None:  # noqa: ANN401  what JSON holds
    if not isinstance(found, dict):
        raise ValueError("not an object")  # noqa: TRY004  a fault of the line
    text = _first(found, fields.text, TEXT)
    if text is not None and not isinstance(text, str):
        raise ValueError("the query is not a text")
    if not text:
        return None
    session = _first(found, fields.session, SESSION)
    results = _number(_first(found, fields.results, RESULTS))
    status, agent = _number(_first(found, "", STATUS)), _first(found, "", AGENT)
    who = "" if session is None else str(session)
    return LogEntry(text, results, who, OK if status is None else status, str(agent or ""))


def _typed(text: str) -> str:
    """Read the bytes of a parameter, which were taken for Latin-1, in their own encoding."""
    try:
        return decoded(text.encode("latin-1"))[0]
    except UnicodeEncodeError:
        return text


def _first(found: Mapping[str, Any], given: str, names: Sequence[str]) -> Any:  # noqa: ANN401
    """Return the value of a dotted name, else of the first that is there."""
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


LIMITS = (
    "names of people, postal addresses and dates of birth are not found",
    "account numbers without a check digit are not found",
    "words of 20 letters and digits or more are masked, also where they are harmless",
)
LUHN_DIGITS = range(13, 20)
PHONE_DIGITS = range(9, 16)
IBAN_REST = 97


def masked(text: str) -> tuple[str, tuple[str, ...]]:
    """Replace personal data that the rules find; return the text and the kinds that were found."""
    kinds: dict[str, None] = {}
    for kind, pattern, check in MASKS:
        for hit in reversed([*pattern.finditer(text)]):
            if check(hit[0]):
                kinds[kind] = None
                text = f"{text[: hit.start()]}<{kind}>{text[hit.end() :]}"
    return text, tuple(kinds)


def _digits(text: str) -> list[int]:
    return [int(sign) for sign in text if sign in "0123456789"]


def is_card(text: str) -> bool:
    """Return whether the digits have the length and the check digit of a payment card (Luhn)."""
    digits = _digits(text)
    doubled = [sum(divmod(2 * digit, 10)) for digit in digits[-2::-2]]
    total = sum(digits[-1::-2]) + sum(doubled)
    return len(digits) in LUHN_DIGITS and total % 10 == 0 and len(set(digits)) > 1


def is_iban(text: str) -> bool:
    """Return whether the check digits of a bank account number are right (ISO 13616)."""
    plain = "".join(text.split()).upper()
    moved = plain[4:] + plain[:4]
    return int("".join(str(int(sign, 36)) for sign in moved)) % IBAN_REST == 1


def is_phone(text: str) -> bool:
    """Return whether a number has as many digits as telephone numbers with an area code."""
    return len(_digits(text)) in PHONE_DIGITS


def is_mixed(text: str) -> bool:
    """Return whether a long word has letters and at least two digits, as keys and tokens do."""
    return sum(map(str.isdigit, text)) > 1 and any(map(str.isalpha, text))


def is_address(text: str) -> bool:
    """Return whether four numbers are those of an internet address."""
    return all(int(part) < 256 for part in text.split("."))  # noqa: PLR2004  a byte


NAMES_OF_SECRETS = (
    r"(?:api[_-]?key|access[_-]?key|(?:access|refresh|auth|id)?[_-]?token|secret|client[_-]secret"
    r"|passw(?:or)?d|pwd|signature|session[_-]?id)"
)
RULES = (
    ("secret", rf"(?i)\b\w*{NAMES_OF_SECRETS}\s*[=:]\s*[^\s&;,]+|\bbearer\s+\S{{8,}}", bool),
    ("secret", r"(?<=://)[^\s/@:]+:[^\s/@]+(?=@)", bool),
    ("secret", r"\b(?:ghp_|gho_|xox[abp]-|sk[-_]|pk[-_]|AKIA|eyJ)[\w.-]{12,}", bool),
    ("email", r"(?<![\w.+%-])[\w.+%-]++@[\w-]++(?:\.[\w-]++)++", bool),
    ("account", r"\b[A-Za-z]{2}\d\d(?: ?[A-Za-z0-9]{4}){2,7}(?: ?[A-Za-z0-9]{1,3})?\b", is_iban),
    ("card", r"\b\d(?:[ -]?\d){12,18}\b", is_card),
    ("address", r"(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?![\w.])", is_address),
    ("address", r"(?i)(?<![\w:])(?:[\da-f]{1,4}:){3,7}(?::?[\da-f]{1,4}){1,4}(?![\w:])", bool),
    ("phone", r"(?<![\w.])(?:\+|00)\d(?:[ ./()-]{0,2}\d){7,14}(?!\w)", is_phone),
    (
        "phone",
        r"(?<![\w.])(?<!\d[ -])\(?0?\d{2,4}\)?[ /.-]\d{3,4}[ .-]?\d{3,5}(?!\w|[ .-]?\d)",
        is_phone,
    ),
    ("token", r"(?<![\w-])[A-Za-z\d][\w-]{18,}[A-Za-z\d](?![\w-])", is_mixed),
)
"""In their order: what an earlier rule has masked, a later one does not see."""
MASKS = tuple((kind, re.compile(pattern), check) for kind, pattern, check in RULES)


class QueryRequests(NamedTuple):
    """One query, and its requests."""

    key: str
    """Its words, caseless: queries of one key are the same."""
    text: str
    masked: bool
    requests: int = 0
    known: int = 0
    """Requests whose number of results the log tells."""
    empty: int = 0
    """Requests of these without any result."""

    @property
    def finds_nothing(self) -> bool:
        """Whether most of its requests had no result."""
        return 2 * self.empty > self.known

    def more(self, results: int | None) -> "QueryRequests":
        """Return the same with one request more."""
        known, empty = self.known + (results is not None), self.empty + (results == 0)
        return self._replace(requests=self.requests + 1, known=known, empty=empty)
