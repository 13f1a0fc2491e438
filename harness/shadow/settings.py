"""The files that people write for a live comparison, and servers read as one of them says."""

from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Protocol, Self, TypeVar

from pydantic import AfterValidator, BaseModel, Field, ValidationError, model_validator

from harness.core.digest import of_json
from harness.core.engine import Answer, Hit, Manifest, surplus
from harness.core.errors import BadPolicy
from harness.core.formats import MAX_SETTINGS_BYTES, toml_of
from harness.core.reading import Malformed, text_of
from harness.core.store import StrictModel
from harness.policy import load
from harness.shadow.divergences import Suppressions
from harness.shadow.pair import digits_of, stated
from harness.shadow.summary import AlarmBounds

MILLION = 1_000_000
NS_PER_MS, NS_PER_S = 1_000_000, 1_000_000_000
MINUTE_NS = 60 * NS_PER_S
MOST_MS = 86_400_000
"""A day; of times in seconds it bounds slips of the hand alone."""
Many = Annotated[int, Field(ge=0, le=MILLION)]
Some = Annotated[int, Field(ge=1, le=MILLION)]
Time = Annotated[float, Field(gt=0, le=MOST_MS)]


class Sampling(StrictModel):
    """Which queries are compared."""

    rate: Many
    """So many of a million."""
    seed: int = Field(ge=0)


class Limits(StrictModel):
    """How much of the machine, and of a person's patience, the candidate gets."""

    in_flight: Some
    """Candidates that run at once, each in its own process."""
    queue: Many
    """Pairs that may wait for a process; beyond it they are shed."""
    budget_s: Time
    """Time that the candidate may take of each minute, over all processes."""
    late_ms: Time
    """An answer after this long is a timeout: a person had left."""
    hang_ms: Time
    """After this long the process is given up and replaced; not below ``late_ms``."""
    memory_mib: Some
    """Resident memory of a candidate's process, above which it is replaced."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.hang_ms < self.late_ms:
            raise ValueError(f"hang_ms {self.hang_ms} must not lie below late_ms {self.late_ms}")
        return self


class ComparisonSettings(StrictModel):
    """What a live comparison may cost."""

    sampling: Sampling
    limits: Limits


class Unreadable(Exception):
    """A request or an answer is not as the file says."""


class UnresolvedPointer(Unreadable):
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


class RequestTable(StrictModel):
    """Which requests are queries, and where the parts of one stand."""

    compared: list[str] = Field(min_length=1)
    """``METHOD /path`` over HTTP, a tool's name over MCP. Nothing else is sent to the candidate."""
    text: Pointer
    k: Pointer
    """How many hits are requested; a pointer to nothing where a request cannot say."""
    k_absent: int = Field(ge=1)
    """How many it shows where a request does not say."""
    forwarded: list[str] = Field(default_factory=list)
    """Headers of a mirrored request that both servers get too, such as ``authorization``. No log
    has them."""


class AnswerTable(StrictModel):
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


class ReadLimits(StrictModel):
    """What is read at most."""

    request_bytes: int = Field(ge=1)
    """A longer request is not compared; over MCP it is refused."""
    answer_bytes: int = Field(ge=1)
    """A longer answer is compared as one that failed."""
    timeout_s: float = Field(gt=0, le=86_400)
    """To connect, and of each wait for the candidate."""


class TrafficReading(StrictModel):
    """The whole file."""

    request: RequestTable
    answer: AnswerTable
    bounds: ReadLimits

    def asked(self, request: Any) -> tuple[str, int]:  # noqa: ANN401  any JSON
        """Read the text of a query, and how many hits it asks for."""
        text, k = pointed(request, self.request.text), self.request.k_absent
        with suppress(UnresolvedPointer):
            k = pointed(request, self.request.k)
        if isinstance(k, str) and k.isascii() and k.isdigit():
            k = int(k)
        if not isinstance(text, str) or not isinstance(k, int) or isinstance(k, bool) or k < 1:
            raise Unreadable(f"it asks for {k!r} hits for a {type(text).__name__}")
        return text, k

    def answer_of(self, answer: Any, manifest: Manifest, k: int) -> tuple[Answer, int | str]:  # noqa: ANN401  any JSON
        """Read an answer of the server that ``manifest`` names to a request for ``k`` hits.

        With it comes which state of its index answered; "" where the server tells none.
        """
        table, who, note = self.answer, manifest.fingerprint, ""
        found = pointed(answer, table.hits)
        if not isinstance(found, list):
            raise Unreadable(f"at {table.hits} is not a list of hits")
        if too_many := surplus(len(found), k):
            raise Unreadable(too_many)
        scores = [pointed(hit, table.score) if table.score else None for hit in found]
        scored = any(score is not None for score in scores)
        hits = tuple(
            _hit(place, pointed(hit, table.id), score if scored else 1 / place, scored=scored)
            for place, (hit, score) in enumerate(zip(found, scores, strict=True), start=1)
        )
        with suppress(UnresolvedPointer):
            if table.degraded and pointed(answer, table.degraded):
                who, note = of_json([who, "degraded"]), f"the server says {table.degraded}"
        generation = known(pointed(answer, table.generation)) if table.generation else ""
        return Answer(hits, who, note), generation

    @property
    def tells_generation(self) -> bool:
        """Whether answers tell which state of the index gave them."""
        return bool(self.answer.generation)


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


class Reading(Protocol):
    """Reads the answers of a server."""

    @property
    def tells_generation(self) -> bool: ...
    def model_dump(self) -> dict[str, Any]: ...
    def answer_of(self, answer: Any, manifest: Manifest, k: int) -> tuple[Answer, int | str]: ...  # noqa: ANN401  any JSON


class Backend:
    """Reads the answers of one server as a file says; it holds nothing that is known."""

    def __init__(self, reading: Reading, kind: str, name: str) -> None:
        self.manifest = Manifest(kind, name, 0, "", of_json(reading.model_dump()))
        self.generation: int | str | None = None if reading.tells_generation else ""
        self._answer_of = reading.answer_of

    def search(self, text: str, k: int) -> Answer:
        """Refuse: a text alone is not a request."""
        raise Unreadable(f"a query without its request: {text!r} for {k} hits")

    def read(self, found: Any, k: int) -> tuple[Answer, str]:  # noqa: ANN401  any JSON
        """Read an answer to a request for ``k`` hits, and which generation of the index gave it."""
        answer, number = self._answer_of(found, self.manifest, k)
        self.generation = number
        return answer, stated(digits_of(self.manifest), number)

    def now(self) -> str:
        """Return the generation as text, as far as it is known."""
        return stated(digits_of(self.manifest), self.generation)


Model = TypeVar("Model", bound=BaseModel)


def read_table(model: type[Model], missing: str, path: Path) -> Model:
    """Read a TOML file as a model; ``missing`` is the remedy where the file is missing."""
    try:
        text = text_of(path, most=MAX_SETTINGS_BYTES)
    except (OSError, Malformed) as error:
        raise BadPolicy(path, f"cannot be read ({error})", missing) from error
    try:
        return model.model_validate(toml_of(text))
    except Malformed as error:
        raise BadPolicy(path, f"is not TOML: {error}", "Correct it", error.line) from error
    except ValidationError as error:
        found: list[Any] = list(error.errors(include_url=False))
        first = next((e for e in found if e["type"] == "extra_forbidden"), found[0])
        at, where = tuple(first["loc"]), load.find(text)
        name = ".".join(str(part + 1) if isinstance(part, int) else part for part in at)
        said, hint = {
            "missing": ("is missing", f"Write {at[-1] if at else ''} = ..."),
            "extra_forbidden": ("unknown key", "Remove it or correct it"),
        }.get(
            first["type"],
            (first["msg"].removeprefix("Value error, "), f"See {PAGES} for what may stand"),
        )
        line = load.nearest(where, at) or load.nearest(where, (*at, 0))
        raise BadPolicy(path, f"{name}: {said}" if name else said, hint, line) from error


PAGES = "docs/shadow-reading.md and docs/shadow.md"
read_bounds = partial(read_table, AlarmBounds, "Give the path of a file as policy/watch.toml")
"""Read what is watched."""
read_settings = partial(
    read_table, ComparisonSettings, "Give the path of a file as policy/shadow.toml"
)
"""Read what a live comparison may cost."""
read_reading = partial(
    read_table, TrafficReading, "Give the path of a file as examples/shadow/http.toml"
)
"""Read where the queries and answers of a server are."""
read_suppressions = partial(
    read_table,
    Suppressions,
    "Write an empty file to accept nothing, or give the path of a suppression list",
)
"""Read what is accepted; an empty file accepts nothing."""
