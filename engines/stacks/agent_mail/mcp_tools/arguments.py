"""The parameters of the tools: names, dates, hints in a text, and who calls."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from enum import StrEnum
from inspect import Parameter, Signature
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from engines.stacks.agent_mail.contract import Names
from engines.stacks.agent_mail.pipeline.scope import Scope, Visibility, viewer
from harness.core.errors import LONGEST, BadFile, UnknownName
from harness.core.formats import toml_file
from harness.core.printable import between
from harness.core.reading import Malformed

_DAY = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_INSTANT = re.compile(
    r"(?P<clock>\d{4}-\d{2}-\d{2}[Tt ]\d{2}:\d{2}(?::\d{2})?)(?:[.,](?P<fraction>\d{1,18}))?"
    r"(?P<zone>[Zz]|[+-]\d{2}:?\d{2})?",
    re.ASCII,
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_DAY_US = 24 * 60 * 60 * 1_000_000
_DIGITS = 6
FORMS = "YYYY-MM-DD, or YYYY-MM-DDTHH:MM:SS with a fraction and a zone where there is one"


def earliest(text: str) -> int:
    """First microsecond that ``text`` admits as a lower bound: a day from its first on.

    An instant between two microseconds admits the later one. Without a zone it is UTC.

    Raises:
        ValueError: it is not a date.
    """
    start, beyond, _ = _read(text)
    return start + beyond


def latest(text: str) -> int:
    """Last microsecond that ``text`` admits as an upper bound: a day to its last (inclusive).

    Raises:
        ValueError: it is not a date.
    """
    start, _, whole_day = _read(text)
    return start + _DAY_US - 1 if whole_day else start


def written(microseconds: int) -> str:
    """Write an instant so that ``earliest`` and ``latest`` give it back.

    Raises:
        OverflowError: it lies outside the years 1 to 9999.
    """
    return (_EPOCH + microseconds * _MICROSECOND).isoformat().replace("+00:00", "Z")


def _read(text: str) -> tuple[int, bool, bool]:
    """Give microseconds, whether the instant lies beyond them, and whether a day is meant."""
    asked = text.strip()
    if _DAY.fullmatch(asked):
        return (date.fromisoformat(asked) - _EPOCH.date()) // _MICROSECOND, False, True
    match = _INSTANT.fullmatch(asked)
    if match is None:
        raise ValueError(f"{text!r} is not a date; write {FORMS}")
    zone = (match["zone"] or "Z").upper()
    try:
        moment = datetime.fromisoformat(match["clock"].upper().replace(" ", "T") + zone)
    except ValueError as exc:
        raise ValueError(f"{text!r} is not a date: {exc}") from exc
    digits = (match["fraction"] or "").ljust(_DIGITS, "0")
    whole, rest = int(digits[:_DIGITS]), digits[_DIGITS:]
    return (moment - _EPOCH) // _MICROSECOND + whole, bool(rest.strip("0")), False


NEAR = 2
"""Edit distance up to which an unknown field is taken for a slip of the pen."""

_PIECE = re.compile(
    r'"[^"]*"|(?<!\S)(?P<field>[A-Za-z_]+):(?P<value>"[^"]+"|[^\s"]+)(?!\S)', re.ASCII
)


class HintField(StrEnum):
    """What may be hinted at."""

    FROM = "from"
    THREAD = "thread"
    PROJECT = "project"
    BEFORE = "before"
    AFTER = "after"
    IMPORTANCE = "importance"


HINT_ALIASES = {
    HintField.FROM: ("from_agent", "sender", "sender_name"),
    HintField.THREAD: ("thread_id",),
    HintField.PROJECT: ("project_key", "project_slug", "proj"),
    HintField.BEFORE: ("until", "date_end", "date_to"),
    HintField.AFTER: ("since", "date_start", "date_from"),
    HintField.IMPORTANCE: ("priority",),
}
_FIELD_OF = {name: field for field, names in HINT_ALIASES.items() for name in (field.value, *names)}


@dataclass(frozen=True, slots=True)
class Hint:
    """One hint: its field, its value without quotation marks, and how it was typed."""

    field: HintField
    value: str
    typed: str


@dataclass(frozen=True, slots=True)
class Slip:
    """A field that there is not, and what may have been meant."""

    typed: str
    meant: str


@dataclass(frozen=True, slots=True)
class Typed:
    """A text without its hints; what is not a hint stays in it, slips included."""

    text: str
    taken: tuple[Hint, ...]
    slips: tuple[Slip, ...]


def read_hints(text: str, takes: Callable[[Hint], bool]) -> Typed:
    """Take hints out of ``text``; one that ``takes`` says no to is left in, as words.

    A hint stands by itself, and nothing within quotation marks is one. A text without hints comes
    back untouched.
    """
    taken: list[Hint] = []
    slips: list[Slip] = []

    def without(piece: re.Match[str]) -> str:
        name, typed = piece["field"], piece[0]
        if name is None:
            return typed
        field = _FIELD_OF.get(name.lower())
        if field is None:
            meant = _meant(name.lower())
            if meant is not None:
                slips.append(Slip(typed, f"{meant}:{piece['value']}"))
            return typed
        hint = Hint(field, piece["value"].strip('"'), typed)
        if not takes(hint):
            return typed
        taken.append(hint)
        return ""

    left = _PIECE.sub(without, text)
    return Typed(" ".join(left.split()) if taken else text, tuple(taken), tuple(slips))


def distance(one: str, other: str) -> int:
    """Fewest letters put in, left out or replaced to get from one word to the other.

    V. Levenshtein, Binary codes capable of correcting deletions, insertions, and reversals, 1966.
    """
    row = list(range(len(other) + 1))
    for at, letter in enumerate(one, start=1):
        above = row
        row = [at]
        for column, against in enumerate(other, start=1):
            replaced = above[column - 1] + (letter != against)
            row.append(min(replaced, above[column] + 1, row[-1] + 1))
    return row[-1]


def _meant(name: str) -> HintField | None:
    """Give the nearest field within reach, of equally near ones the first by name."""
    away, field = min((distance(name, field), field) for field in HintField)
    return field if away <= NEAR else None


class Code(StrEnum):
    """Kinds of refusal, for callers that branch on them."""

    INVALID_ARGUMENT = "INVALID_ARGUMENT"
    NOT_FOUND = "NOT_FOUND"
    FORBIDDEN = "FORBIDDEN"
    FAILED = "FAILED"


class Refused(Exception):
    """The arguments contradict each other, cannot be read, or name what there is not.

    What was given may be quoted, and may be long: the middle of the message is left out then.
    """

    def __init__(self, problem: str, code: Code = Code.INVALID_ARGUMENT) -> None:
        super().__init__(f"{code}: {between(problem, LONGEST)}")
        self.code = code


LIMIT_DEFAULT = 20
MAX_OFFSET = 5_000
"""Rows that may be skipped; further on, a cursor costs less and misses nothing."""
EVERY_PROJECT = "*"

Text = Annotated[str, BeforeValidator(lambda given: "" if given is None else given)]
"""A text that may be left out: empty and null are as good as absent."""

ARGUMENT_ALIASES: Mapping[str, tuple[str, ...]] = {
    "sender": ("from_agent", "sender_name"),
    "recipient": ("recipient_name",),
    "date_start": ("date_from", "after", "since"),
    "date_end": ("date_to", "before", "until"),
    "project": ("project_key_filter", "project_slug", "proj"),
}
_SAME: Mapping[str, Callable[[str], object]] = {
    "date_start": earliest,
    "date_end": latest,
}
"""Two names of one parameter may be given in two spellings of one value."""


class Arguments(BaseModel):
    """What both tools take."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    query: str = Field(
        description="What to search for. May hold hints: from:, thread:, project:, before:,"
        " after:, importance:."
    )
    limit: int = Field(LIMIT_DEFAULT, description="Messages on a page, held within 1..1000.")
    offset: int = Field(
        0, ge=0, le=MAX_OFFSET, description="Messages to skip; not together with cursor."
    )
    ranking: Text = Field("", description="relevance (default) or recency.")
    sender: Text = Field("", description="Exact name of the agent that wrote it.")
    importance: Text = Field("", description="Any of low,normal,high,urgent, commas between.")
    thread_id: Text = Field("", description="Exact thread.")
    date_start: Text = Field(
        "", description="Not sent before: a day or an instant, UTC if no zone."
    )
    date_end: Text = Field(
        "", description="Not sent after; a day counts to its last microsecond, UTC."
    )
    explain: bool = Field(default=False, description="Say how the query was served.")
    cursor: Text = Field("", description="next_cursor of the page before.")
    mode: Text = Field(
        "", description="lexical, semantic, hybrid or hybrid_rerank; the server's own if absent."
    )
    recipient: Text = Field("", description="Exact name of an agent in to, cc or bcc.")
    agent_name: Text = Field("", description="Exact name of an agent that wrote or received it.")
    direction: Text = Field("", description="inbox or outbox, of agent_name.")
    ack_required: bool | None = Field(None, description="Whether an acknowledgement is required.")
    min_score: float | None = Field(
        None, allow_inf_nan=False, description="Least score in [0, 1] of a message shown."
    )


class InProject(Arguments):
    """Parameters of ``search_messages``."""

    project_key: str = Field(
        description="Slug of the project to search, or * for all that the caller may see."
    )


class InProduct(Arguments):
    """Parameters of ``search_messages_product``."""

    product_key: str = Field(description="Name of the product whose projects are searched.")
    project: Text = Field("", description="Slug of one of the product's projects.")


Given = TypeVar("Given", bound=BaseModel)


def resolved(kind: type[Given], given: Mapping[str, Any]) -> Given:
    """Read arguments that may come under several names.

    Raises:
        Refused: two names of one parameter are given with values that differ.
    """
    merged = dict(given)
    for name, others in ARGUMENT_ALIASES.items():
        said = {key: merged.pop(key) for key in (name, *others) if merged.get(key)}
        for other in others:
            merged.pop(other, None)
        if not said or name not in kind.model_fields:
            continue
        key, value = next(iter(said.items()))
        same = _SAME.get(name, str)
        for other, twice in said.items():
            if twice != value and _differ(same, value, twice):
                raise Refused(
                    f"{key} is {value!r} and {other} is {twice!r}; they are names of one"
                    " parameter, give one"
                )
        merged[name] = value
    return kind(**merged)


def signature(kind: type[BaseModel], gives: object) -> Signature:
    """Write a tool's parameters, other names included, as a function would have them."""
    parameters: list[Parameter] = []
    annotated: Any = Annotated
    for name, field in kind.model_fields.items():
        about = annotated[(field.annotation, *field.metadata, Field(description=field.description))]
        default = Parameter.empty if field.is_required() else field.default
        parameters.append(
            Parameter(name, Parameter.KEYWORD_ONLY, annotation=about, default=default)
        )
        for other in ARGUMENT_ALIASES.get(name, ()):
            said = annotated[Text, Field(description=f"Another name of {name}.")]
            parameters.append(Parameter(other, Parameter.KEYWORD_ONLY, annotation=said, default=""))
    return Signature(parameters, return_annotation=gives)


def _differ(same: Callable[[str], object], value: str, twice: str) -> bool:
    try:
        return same(value) != same(twice)
    except ValueError:
        return True


HINT = (
    "Write a table [viewers.NAME] for each, with agent, projects, contacts and token_sha256,"
    " the SHA-256 of the viewer's token in hexadecimal digits"
)
CALLER: ContextVar[Scope | None] = ContextVar("caller")
"""Whom the current request is answered for, None an operator; unset outside of HTTP."""


class Listed(BaseModel):
    """One viewer of the file."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    agent: str = Field(min_length=1)
    projects: list[str] = Field(default_factory=list)
    """Slugs of the projects whose messages it may read."""
    contacts: list[str] = Field(default_factory=list)
    """Agents whose messages in other projects it may know of."""
    token_sha256: str = Field(pattern=r"^[0-9a-f]{64}$")


class _File(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    viewers: dict[str, Listed] = Field(min_length=1)


def digest(token: str) -> str:
    """Give the SHA-256 of a token: files and memory hold no token itself."""
    return hashlib.sha256(token.encode()).hexdigest()


def read_callers(path: Path) -> Mapping[str, Listed]:
    """Read the viewers of a file, by name.

    Raises:
        BadFile: it cannot be read, or two viewers have one token.
    """
    try:
        found = _File.model_validate(toml_file(path)).viewers
    except (OSError, Malformed, ValidationError) as exc:
        raise BadFile(path, f"cannot be read ({exc})", HINT) from exc
    if len({one.token_sha256 for one in found.values()}) < len(found):
        raise BadFile(path, "gives two viewers one token", "Give each viewer a token of its own")
    return found


def scope_of(listed: Listed, names: Names) -> Scope:
    """Make the scope of a viewer.

    Raises:
        UnknownName: the project of one of its slugs is unknown.
    """
    projects = {slug: names.project_called(slug) for slug in listed.projects}
    for slug, known in projects.items():
        if known is None:
            raise UnknownName("project of a viewer", slug, [])
    ids = frozenset(known for known in projects.values() if known is not None)
    return viewer(listed.agent, ids, frozenset(listed.contacts))


def nobody() -> Scope:
    """Show nothing: for a request that names no one, on a server that has viewers."""
    return Scope("nobody", lambda _: Visibility.DENY)
