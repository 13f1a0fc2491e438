"""How queries and answers of a server that is not ours are read."""

from collections.abc import Mapping
from contextlib import suppress
from typing import Annotated, Any

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


class TrafficReading(SettingsTable):
    """The whole file."""

    request: RequestTable
    answer: AnswerTable
    bounds: ReadLimits

    def asked(self, request: Any) -> tuple[str, int]:  # noqa: ANN401  any JSON
        """Read the text of a query, and how many hits it asks for."""
        table = self.request
        try:
            text = pointed(request, table.text)
        except UnresolvedPointer as exc:
            raise Unreadable(f"the request's text: {exc}") from None
        k: Any = table.k_absent
        with suppress(UnresolvedPointer):
            k = pointed(request, table.k)
        if isinstance(k, str) and k.isascii() and k.isdigit():
            k = int(k)
        if not isinstance(text, str) or not isinstance(k, int) or isinstance(k, bool) or k < 1:
            raise Unreadable(f"it asks for {k!r} hits for a {type(text).__name__}")
        return text, k

    def answer_of(self, answer: Any, manifest: Manifest, k: int) -> Answer:  # noqa: ANN401  any JSON
        """Read an answer of the server that ``manifest`` names to a request for ``k`` hits."""
        table, who = self.answer, manifest.fingerprint
        try:
            found = pointed(answer, table.hits)
            if not isinstance(found, list):
                raise Unreadable(f"at {table.hits} is not a list of hits")
            if too_many := surplus(len(found), k):
                raise Unreadable(too_many)
            ids = [pointed(hit, table.id) for hit in found]
            scores = [pointed(hit, table.score) if table.score else None for hit in found]
        except UnresolvedPointer as exc:
            raise Unreadable(f"the answer: {exc}") from None
        scored = any(score is not None for score in scores)
        hits = tuple(
            _hit(place, doc_id, score if scored else 1 / place, scored=scored)
            for place, (doc_id, score) in enumerate(zip(ids, scores, strict=True), start=1)
        )
        with suppress(UnresolvedPointer):
            if table.degraded and pointed(answer, table.degraded):
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
            return known(pointed(answer, self.answer.generation))
        except UnresolvedPointer as exc:
            raise Unreadable(f"the answer's generation: {exc}") from None


def _hit(place: int, doc_id: Any, raw: Any, *, scored: bool) -> Hit:  # noqa: ANN401  any JSON
    if not isinstance(doc_id, str | int) or isinstance(doc_id, bool):
        raise Unreadable(f"the id of hit {place} is a {type(doc_id).__name__}")
    if not isinstance(raw, int | float) or isinstance(raw, bool):
        raise Unreadable(f"the score of hit {place} is a {type(raw).__name__}")
    try:
        return Hit(str(doc_id), unit(float(raw)) if scored else raw, float(raw))
    except OverflowError:
        raise Unreadable(f"the score of hit {place} is too large") from None


def known(generation: object) -> int | str:
    """Check what a server says of the state of its index."""
    if isinstance(generation, bool) or not isinstance(generation, int | str) or generation == "":
        raise Unreadable(f"the answer's generation is {generation!r}, no number and no text")
    return generation


def unit(raw: float) -> float:
    """Bring any number into [0, 1]: the same order, and equal where equal."""
    return (1 + raw / (1 + abs(raw))) / 2


class Backend:
    """Reads the answers of one server as a file says; it holds nothing that is known."""

    def __init__(self, reading: TrafficReading, kind: str, name: str) -> None:
        self.manifest = Manifest(kind, name, 0, "", of_json(reading.model_dump()))
        self._digits = self.manifest.fingerprint[:DIGITS]
        self.reading = reading
        self.generation: int | str | None = None if reading.answer.generation else ""

    def search(self, text: str, k: int) -> Answer:
        """Refuse: a text alone is not a request."""
        raise Unreadable(f"a query without its request: {text!r} for {k} hits")

    def read(self, found: Any, k: int) -> tuple[Answer, str]:  # noqa: ANN401  any JSON
        """Read an answer to a request for ``k`` hits, and which generation of the index gave it."""
        answer = self.reading.answer_of(found, self.manifest, k)
        self.generation = number = self.reading.generation_of(found)
        return answer, stated(self._digits, number)

    def now(self) -> str:
        """Return the generation as text, as far as it is known."""
        return stated(self._digits, self.generation)
