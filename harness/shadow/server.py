"""How queries and answers of a server that is not ours are read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, NamedTuple

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from harness.core.digest import of_json
from harness.core.engine import Answer, Hit, Manifest, surplus
from harness.core.errors import HarnessError
from harness.core.records import Scalar
from harness.shadow.pair import DIGITS, stated


class UnresolvedPointer(Exception):
    """Nothing stands where a pointer leads."""


def pointed(document: Any, pointer: str) -> Any:  # noqa: ANN401  any JSON, and any part of it
    """Return what ``pointer`` leads to; the empty pointer is the whole document."""
    found = document
    for part in pointer.split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        try:
            found = found[_place(name)] if isinstance(found, list) else found[name]
        except (KeyError, IndexError, TypeError, ValueError):
            raise UnresolvedPointer(f"there is nothing at {pointer}") from None
    return found


def _place(name: str) -> int:
    if not (name.isascii() and name.isdigit()) or (name[0] == "0" and name != "0"):
        raise ValueError(name)
    return int(name)


def _checked(pointer: str) -> str:
    if pointer and not pointer.startswith("/"):
        raise ValueError(f"{pointer!r} is not a JSON pointer; it starts with /, as /hits/0/id")
    return pointer


Pointer = Annotated[str, AfterValidator(_checked)]


class Unreadable(Exception):
    """A request or an answer is not as the file says."""


class SettingsTable(BaseModel):
    """A table of a file: every key is known, and none changes."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class RequestTable(SettingsTable):
    """Which requests are queries, and where the parts of one stand."""

    compared: list[str] = Field(min_length=1)
    """``METHOD /path`` over HTTP, a tool's name over MCP. Nothing else is sent to the candidate."""
    text: Pointer
    k: Pointer
    """How many hits are requested; a pointer to nothing where a request cannot say."""
    k_absent: int = Field(ge=1)
    """How many it shows where a request does not say."""
    forwarded: list[str] = []
    """Headers of a mirrored request that both servers get too, such as ``authorization``. No log
    has them."""


class AnswerTable(SettingsTable):
    """Where the hits of an answer stand."""

    hits: Pointer
    """A list, best first."""
    id: Pointer
    """In a hit; empty where the hit is the id."""
    score: Pointer
    """In a hit; empty where there are none. Without a score, or where all are null, the order alone
    counts."""
    degraded: Pointer
    """Something that is true where another engine stepped in; empty where nothing says so."""
    generation: Pointer
    """A number or a text that is another one after every change of the index; empty where the
    server tells none."""


class ReadLimits(SettingsTable):
    """What is read at most."""

    request_bytes: int = Field(ge=1)
    """A longer request is not compared; over MCP it is refused."""
    answer_bytes: int = Field(ge=1)
    """A longer answer is compared as one that failed."""
    timeout_s: float = Field(gt=0, le=86_400)
    """To connect, and of each wait for the candidate."""


class RequestedQuery(NamedTuple):
    """What of a request a comparison is about."""

    text: str
    k: int


class TrafficReading(SettingsTable):
    """The whole file."""

    request: RequestTable
    answer: AnswerTable
    bounds: ReadLimits

    def asked(self, request: Any) -> RequestedQuery:  # noqa: ANN401  any JSON
        """Read a query."""
        table = self.request
        try:
            text = pointed(request, table.text)
        except UnresolvedPointer as exc:
            raise Unreadable(f"the request's text: {exc}") from None
        try:
            k: Any = pointed(request, table.k)
        except UnresolvedPointer:
            k = table.k_absent
        if isinstance(k, str) and k.isascii() and k.isdigit():
            k = int(k)
        if not isinstance(text, str) or not isinstance(k, int) or isinstance(k, bool) or k < 1:
            raise Unreadable(f"it asks for {k!r} hits for a {type(text).__name__}")
        return RequestedQuery(text, k)

    def answer_of(self, answer: Any, manifest: Manifest, k: int) -> Answer:  # noqa: ANN401  any JSON
        """Read an answer of the server that ``manifest`` names to a request for ``k`` hits."""
        table = self.answer
        try:
            found = self._list(answer, k)
            scored = self._are_scored(found)
            hits = tuple(
                self._hit(hit, place, scored=scored) for place, hit in enumerate(found, start=1)
            )
        except UnresolvedPointer as exc:
            raise Unreadable(f"the answer: {exc}") from None
        who = manifest.fingerprint
        if table.degraded and self._true(answer):
            return Answer(hits, of_json([who, "degraded"]), f"the server says {table.degraded}")
        return Answer(hits, who)

    def headers(self) -> Mapping[str, str]:
        """Return headers that every request to the server carries; no log has them."""
        return {}

    def translated(self, text: str, k: int) -> Mapping[str, Scalar]:
        """Return the request for a server with another API."""
        del text, k
        raise HarnessError(
            "a request is translated by the file of an engine over HTTP, and this one says only how"
            ' answers are read. Give a file with stack = "http"'
        )

    def generation_of(self, answer: Any) -> int | str:  # noqa: ANN401  any JSON
        """Read which state of its index a server answered from; empty where it tells none."""
        if not self.answer.generation:
            return ""
        try:
            found = pointed(answer, self.answer.generation)
        except UnresolvedPointer as exc:
            raise Unreadable(f"the answer's generation: {exc}") from None
        return known(found)

    def _list(self, answer: Any, k: int) -> list[Any]:  # noqa: ANN401  any JSON
        found = pointed(answer, self.answer.hits)
        if not isinstance(found, list):
            raise Unreadable(f"at {self.answer.hits} is not a list of hits")
        if too_many := surplus(len(found), k):
            raise Unreadable(too_many)
        return found

    def _id(self, hit: Any, place: int) -> str:  # noqa: ANN401  any JSON
        doc_id = pointed(hit, self.answer.id)
        if not isinstance(doc_id, str | int) or isinstance(doc_id, bool):
            raise Unreadable(f"the id of hit {place} is a {type(doc_id).__name__}")
        return str(doc_id)

    def _are_scored(self, hits: list[Any]) -> bool:
        table = self.answer
        return bool(table.score) and any(pointed(hit, table.score) is not None for hit in hits)

    def _hit(self, hit: Any, place: int, *, scored: bool) -> Hit:  # noqa: ANN401  any JSON
        doc_id = self._id(hit, place)
        if not scored:
            return Hit(doc_id, 1 / place, 1 / place)
        raw = pointed(hit, self.answer.score)
        if not isinstance(raw, int | float) or isinstance(raw, bool):
            raise Unreadable(f"the score of hit {place} is a {type(raw).__name__}")
        try:
            return Hit(doc_id, unit(float(raw)), float(raw))
        except OverflowError:
            raise Unreadable(f"the score of hit {place} is too large") from None

    def _true(self, answer: Any) -> bool:  # noqa: ANN401  any JSON
        try:
            return bool(pointed(answer, self.answer.degraded))
        except UnresolvedPointer:
            return False

    def manifest(self, kind: str, server: str) -> Manifest:
        """Name a server that is read in this way; no one knows what it holds."""
        return Manifest(kind, server, 0, "", of_json(self.model_dump()))


def known(generation: object) -> int | str:
    """Check what a server says of the state of its index."""
    if isinstance(generation, bool) or not isinstance(generation, int | str) or generation == "":
        raise Unreadable(f"the answer's generation is {generation!r}, no number and no text")
    return generation


def unit(raw: float) -> float:
    """Bring any number into [0, 1]: the same order, and equal where equal."""
    return (1 + raw / (1 + abs(raw))) / 2


class Told(NamedTuple):
    """What one answer says."""

    answer: Answer
    generation: str
    """Of the index that it came from (``harness.shadow.pair``)."""


class Backend:
    """Reads the answers of one server as a file says."""

    def __init__(self, reading: TrafficReading, kind: str, name: str) -> None:
        self.manifest = reading.manifest(kind, name)
        self._reading = reading
        self._digits = self.manifest.fingerprint[:DIGITS]
        self.generation: int | str | None = None if reading.answer.generation else ""

    def read(self, found: Any, k: int) -> Told:  # noqa: ANN401  any JSON
        """Read an answer to a request for ``k`` hits."""
        answer = self._reading.answer_of(found, self.manifest, k)
        number = self._reading.generation_of(found)
        self.generation = number
        return Told(answer, stated(self._digits, number))

    def now(self) -> str:
        """Return the generation as text, as far as it is known."""
        return stated(self._digits, self.generation)
