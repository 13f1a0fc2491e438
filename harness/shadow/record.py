"""What a live comparison writes down: kinds of record, one JSON object a line."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import BeforeValidator, ConfigDict, Field, PlainSerializer, TypeAdapter

from harness.agreement import UNCOMPARED, Class
from harness.core.digest import of_json
from harness.core.engine import Hit
from harness.core.errors import BadFile
from harness.core.formats import checked
from harness.core.reading import MAX_LINE_BYTES
from harness.core.records import Scalar
from harness.core.run import Status
from harness.core.store import bad

FORMAT = 1
"""Version of the records; a reader refuses any other."""
HEAD = b'{"format":%d,' % FORMAT
"""How each line starts."""
KEY_DIGITS = 32
"""Hexadecimal digits of a query's key: 128 bits, so two queries do not meet by chance."""

AGREED = frozenset({Class.EXACT, Class.BOTH_EMPTY})
SKIPPED = frozenset({Class.SKIPPED, Class.STALE, Class.SHED})
DIVERGING = frozenset(Class) - AGREED - SKIPPED
"""Outcomes that leave a ``Divergence``: the arms differ, or one of them failed or was too slow."""

STRICT = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)
_BY_NAME = {str(status.name).lower(): status for status in Status}


def _named(value: object) -> object:
    if isinstance(value, str) and value not in _BY_NAME:
        raise ValueError(f"{value!r} is not one of {', '.join(_BY_NAME)}")
    return _BY_NAME.get(str(value), value)


Ended = Annotated[
    Status,
    BeforeValidator(_named),
    PlainSerializer(lambda status: status.name.lower(), return_type=str),
]
"""A ``Status``, written by its name: answered, failed, timed_out or not_asked."""
MOST = 2**63 - 1
"""Of a count: what arrays take. As nanoseconds since 1970 it is in the year 2262."""
Count = Annotated[int, Field(ge=0, le=MOST)]
Number = Annotated[int, Field(ge=1, le=MOST)]
Share = Annotated[float, Field(ge=0, le=1)]


class ProblemKind(StrEnum):
    """What went worse than it should have; the last five are of earlier versions."""

    FALLBACK = "fallback"
    """An arm answered with less than it has, or as another engine; its note says how."""
    NOT_TAKEN = "not taken"
    """Queries were served and are not attempts: they could not be read or were too many."""
    FAULT = "fault"
    """The comparison's own code failed; what was served is not touched by that."""
    SHED = "shed"
    TIMEOUT = "timeout"
    CRASH = "crash"
    STALE = "stale"
    DISABLED = "disabled"


@dataclass(frozen=True, slots=True)
class LoggedAnswer:
    """What one arm did, whole."""

    __pydantic_config__ = STRICT

    status: Ended
    hits: tuple[Hit, ...]
    """Best first, as shown: a document that was shown twice is here twice."""
    served_by: str
    """Fingerprint of who answered; empty where no one did."""
    note: str
    error: str
    elapsed_ns: Count | None
    """On its own clock; 0 where it was not asked, None where the proxy of 0.1 did not know it."""
    before: str
    """Generation of the index when the arm was queried (``harness.shadow.pair``)."""
    after: str
    """The same after the answer; the control's is read again when the candidate has answered."""


@dataclass(frozen=True, slots=True)
class SideObservation:
    """What an observation keeps of one side that answered, failed or was too slow."""

    __pydantic_config__ = STRICT

    status: Ended
    elapsed_ns: Count | None
    """As in ``LoggedAnswer``."""
    hits: Count
    """How many documents were shown, each counted once."""
    duplicates: Count
    """How many hits showed a document again."""
    top: float | None
    """Normalised score of the first hit; None where there is none."""
    top_raw: float | None
    """The same as the engine counts."""
    answer: str
    """Digest of the document ids in their order; the same for the same list."""
    served_by: str
    generation: str
    """Of the index when the arm was queried."""


@dataclass(frozen=True, slots=True)
class Observation:
    """One attempt to compare: the denominator. Also shed, skipped and failed ones are here."""

    __pydantic_config__ = STRICT

    number: Number
    """Of the attempt, from 1 without gaps; a gap was lost (``log.LogContents.missing``)."""
    writer: str
    at: Count
    """Nanoseconds since 1970 in UTC, when the control had answered."""
    served: Number
    """Number of this query among all that the control served, also those not sampled."""
    query: str
    """Key of the query (``query_key``)."""
    slices: tuple[str, ...]
    outcome: Class
    reason: str
    """Why it was not compared; empty where it was."""
    k: Number
    """How many hits were requested; more than any list could hold is written as ``DEEPEST``."""
    control: SideObservation | None
    candidate: SideObservation | None
    """None where this arm was not asked."""
    jaccard: Share | None
    """Of the first k; None where it is not defined or the two were not compared."""
    rbo: Share | None
    client: Annotated[str, Field(pattern=f"^([0-9a-f]{{{KEY_DIGITS}}})?$")] = ""
    """Key of who sent the query (``client_key``); empty where that is unknown."""
    again: Class | None = None
    """Class of the control's answer against its own second one; None without one."""

    @property
    def compared(self) -> bool:
        """Whether both arms answered and nothing moved."""
        return self.outcome not in UNCOMPARED


@dataclass(frozen=True, slots=True)
class Divergence:
    """A pair that differs, with all that it takes to ask it again."""

    __pydantic_config__ = STRICT

    number: Number
    """The number of its observation."""
    writer: str
    at: Count
    served: Number
    text: str
    k: Number
    outcome: Class
    control: LoggedAnswer
    candidate: LoggedAnswer
    params: Mapping[str, Scalar] = field(default_factory=dict, hash=False)
    slices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Degradation:
    """Something that went worse than it should have, in an arm or in the comparison itself."""

    __pydantic_config__ = STRICT

    number: Count
    """The attempt that it is about; 0 where it is about none."""
    writer: str
    at: Count
    arm: Annotated[str, Field(pattern="^(control|candidate|shadow)$")]
    kind: ProblemKind
    cause: str
    times: Number = 1
    """How many queries were not taken for this cause since it was last written down; else 1."""


AnyRecord = Observation | Divergence | Degradation
Record = TypeVar("Record", bound=AnyRecord)

_ADAPTERS: dict[type, TypeAdapter[Any]] = {
    kind: TypeAdapter(kind) for kind in (Observation, Divergence, Degradation)
}


def query_key(text: str, params: Mapping[str, Scalar]) -> str:
    """Key of the query: the first 128 bits of the digest of text and params."""
    return of_json([text, dict(params)])[:KEY_DIGITS]


def client_key(name: str, salt: str) -> str:
    """Key of a client: 128 bits of a digest with the log's own salt; empty for an empty name."""
    return of_json([salt, name])[:KEY_DIGITS] if name else ""


def dumped(record: AnyRecord) -> bytes:
    """Return a record as one line of JSON, with its line end."""
    line = HEAD + bytes(_ADAPTERS[type(record)].dump_json(record)[1:]) + b"\n"
    if len(line) >= MAX_LINE_BYTES:
        raise ValueError(f"its line has {len(line)} bytes, {MAX_LINE_BYTES} are too many to read")
    return line


def parsed(kind: type[Record], line: bytes, path: Path, number: int) -> Record:
    """Read one whole line; ``path`` and ``number`` (from 1) say where it stands."""
    hint = "Take the line out, or read the log with the program that wrote it."
    if not line.startswith(HEAD):
        problem = f"the line does not start with {HEAD.decode()!r}"
        raise BadFile(path, problem, hint, number)
    try:
        whole = checked(line.decode("utf-8"))
        record: Record = _ADAPTERS[kind].validate_json("{" + whole[len(HEAD) :])
    except ValueError as exc:
        raise bad(path, f"not a whole {kind.__name__.lower()}", exc, hint, number) from exc
    return record
