"""An engine under check: its documents, its open index, and the form of a check."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from harness.core.engine import Answer, Engine, Hit, Manifest, Searcher
from harness.core.errors import DatasetError
from harness.core.files import FULL, refusal
from harness.core.printable import between, one_line
from harness.core.records import Document
from harness.corpus.prepared import Prepared
from harness.replay.drive import BrokenAnswer, copied

DOCUMENTS = tuple(
    Document(doc_id, title, text)
    for doc_id, title, text in (
        ("bread", "Sourdough bread", "Flour, water and salt, left to rise overnight, then baked."),
        ("bees", "Keeping bees", "A hive of honey bees needs flowers within three kilometres."),
        ("tides", "Tides", "The moon pulls the sea, so the water rises twice a day."),
        ("volcano", "Volcanoes", "Molten rock erupts from deep below the crust of the earth."),
        ("bicycle", "Patching a puncture", "Take the tyre off the wheel, find the hole, patch it."),
        (
            "chess",
            "Chess openings",
            "The queen's gambit offers a pawn for the centre of the board.",
        ),
        ("pandas", "pandas.read_csv", "Read a comma-separated file into a data frame: read_csv."),
        ("opera", "Opera", "The soprano sings an aria while the orchestra plays softly."),
        ("vaccine", "Vaccines", "A vaccine trains the immune system to fight a virus."),
        ("tokyo", "東京", "日本の首都は東京です。"),
        ("smile", "Emoji", "A smile 😀 says more than words."),
        ("empty", "", ""),
        ("twin-b", "Copy", "The very same words stand in two places."),
        ("twin-a", "Copy", "The very same words stand in two places."),
        ("untitled", "", "Only a body: gravel, lantern, umbrella."),
    )
)
OBVIOUS: Mapping[str, str] = {
    "bread flour salt": "bread",
    "honey bees hive": "bees",
    "moon sea water tides": "tides",
    "volcanoes molten rock erupts": "volcano",
    "puncture tyre wheel patch": "bicycle",
    "chess queen's gambit pawn": "chess",
    "read_csv": "pandas",
    "soprano aria opera orchestra": "opera",
    "vaccine virus immune system": "vaccine",
    "gravel lantern umbrella": "untitled",
}
"""The id of the document that a query quotes."""
EQUAL = ("twin-a", "twin-b")
"""Two documents with the same text, in the order in which they must be shown."""
EQUAL_TEXT = "same words in two places"
COMMON = ("the water of a day", "words", EQUAL_TEXT)
"""Queries whose words stand in several documents."""
TEXTS = (*OBVIOUS, *COMMON)
QUERIES = 50
"""Queries of a data set that are run, taken evenly from all."""
K = 20
"""Hits asked for; all sample documents, so that every tie is seen."""
QUOTED = 40
"""Characters of a query that a message quotes."""
LONG = 1_000
"""Words of the long texts, unless another number is named."""
ShownHits = list[tuple[str, float]]
"""Ids and scores in order: what a comparison of two answers rests on."""


@dataclass(frozen=True, slots=True)
class CheckSample:
    """What an engine is checked on."""

    documents: Sequence[Document] = DOCUMENTS
    texts: Sequence[str] = TEXTS
    """Queries with words of the documents."""
    own: bool = True
    """Whether these are the sample documents of the harness."""

    @classmethod
    def of(cls, data: Path) -> "CheckSample":
        """Take documents and queries from prepared data."""
        prepared = Prepared.open(data)
        documents = tuple(prepared.documents())
        if not documents:
            raise DatasetError(f"{data}: no document to check an engine on. Name another data set")
        texts = tuple(dict.fromkeys(query.text for query in prepared.queries()))
        return cls(documents, texts[:: -(-len(texts) // QUERIES) or 1], own=False)


class NotChecked(Exception):
    """A check has nothing to look at; the message says why."""


class Named(NamedTuple):
    """How another process finds the engine."""

    name: str
    """Name of an arm, or path to its TOML file."""
    cache: Path


class QueryOutcome(NamedTuple):
    """One query, and what came back: an answer, or an error in words."""

    text: str
    k: int
    answer: Answer | None
    error: str = ""

    @property
    def hits(self) -> tuple[Hit, ...]:
        """What was shown; nothing where the query failed."""
        return self.answer.hits if self.answer else ()

    def __str__(self) -> str:
        return f"{quoted(self.text)} (k = {self.k:,})"


@dataclass(frozen=True, eq=False)
class CheckSubject:
    """An engine with an open index of ``documents``."""

    engine: Engine
    built: Manifest
    """What ``build`` gave."""
    index: Path
    searcher: Searcher
    documents: Sequence[Document] = DOCUMENTS
    texts: Sequence[str] = TEXTS
    arm: Named | None = field(default=None, kw_only=True)
    """None where the engine is an object of this process."""
    long_words: int = field(default=LONG, kw_only=True)

    @cached_property
    def over_http(self) -> bool:
        """Whether a server holds the documents already."""
        return of_any_documents(self.engine) is not None

    @cached_property
    def known(self) -> frozenset[str]:
        """Ids of the documents."""
        return frozenset(document.doc_id for document in self.documents)

    @cached_property
    def asked(self) -> tuple[QueryOutcome, ...]:
        """Every text with its answer."""
        return tuple(ask(self.searcher, text, K) for text in self.texts)

    def answered(self) -> tuple[QueryOutcome, ...]:
        """Return the queries with an answer that can be read."""
        found = tuple(one for one in self.asked if one.answer)
        if not found:
            raise NotChecked("no query was answered")
        return found

    @contextmanager
    def scratch(self) -> Iterator[Path]:
        """Return an empty folder beside the index for as long as the block runs."""
        with TemporaryDirectory(dir=self.index.parent) as folder:
            yield Path(folder)


def of_any_documents(engine: object) -> Engine | None:
    """Return an engine over HTTP as one that takes any ids; None for every other engine."""
    made: Callable[[], Engine] | None
    made = getattr(getattr(engine, "engine", engine), "of_any_documents", None)
    return made() if made else None


@contextmanager
def standing(
    engine: Engine, scratch: Path, sample: CheckSample | None = None, arm: Named | None = None
) -> Iterator[CheckSubject]:
    """Build an index in the folder ``scratch`` and open it.

    An engine over HTTP does not have the sample documents; it takes whatever its server has.
    """
    given, index = sample or CheckSample(), scratch / "index"
    if given.own and (any_ids := of_any_documents(engine)):
        given, engine, arm = replace(given, documents=()), any_ids, None
    index.mkdir()
    built = engine.build(iter(given.documents), index)
    with engine.open(index) as searcher:
        yield CheckSubject(engine, built, index, searcher, given.documents, given.texts, arm=arm)


def ask(searcher: Searcher, text: str, k: int) -> QueryOutcome:
    """Run one query; whatever the engine raises becomes words."""
    try:
        answer = copied(searcher.search(text, k), k)
    except BrokenAnswer as exc:
        return QueryOutcome(text, k, None, str(exc))
    except (KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as exc:  # noqa: BLE001  an exit or a panic is a failed query too
        return QueryOutcome(text, k, None, raised(exc))
    return QueryOutcome(text, k, answer, "")


def raised(exc: BaseException) -> str:
    """Describe what was raised, in a line; raise it again where a disk has no room."""
    if (told := refusal(exc)) and told.errno in FULL:
        raise exc
    return one_line(f"raised {type(exc).__name__}: {exc}".removesuffix(": "), 200)


def quoted(text: str) -> str:
    """Quote a query in a message."""
    return repr(text if len(text) <= QUOTED else f"{text[:QUOTED]}…")


def shown(hits: Iterable[Hit]) -> ShownHits:
    """Reduce hits to what a comparison of two answers rests on."""
    return [(hit.doc_id, hit.score) for hit in hits]


LISTED = 3
"""Violations that a message lists."""
LONGEST = 500
"""Characters of a violation: an id of an engine may have a million."""
COUNTED = 1_000
"""Violations after which a check ends."""


class CheckOutcome(StrEnum):
    """How a check ended."""

    HOLDS = "holds"
    BROKEN = "broken"
    NOT_CHECKED = "not checked"


Violations = Callable[["CheckSubject"], Iterator[str]]


@dataclass(frozen=True, slots=True)
class Check:
    """A promise, and the function that yields each violation of it."""

    name: str
    promise: str
    hint: str
    """What to do where it is broken."""
    violations: Violations
    own_documents: bool = False
    """Whether it needs the documents of ``harness.check.subject``."""
    by_name: bool = False
    """Whether it needs an engine that another process can load: an arm, or a TOML file."""
    over_http: bool = False
    """Whether an engine that has its documents already can keep it too."""

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class CheckFinding:
    """What a check saw."""

    check: Check
    outcome: CheckOutcome
    violations: tuple[str, ...] = ()
    """The first of them; ``count`` says how many there are."""
    count: int = 0
    reason: str = ""
    """Why nothing was checked."""

    @property
    def broken(self) -> bool:
        """Whether the promise is broken."""
        return self.outcome is CheckOutcome.BROKEN

    def __str__(self) -> str:
        said = [f"{self.check.name}: {self.outcome}. {self.check.promise}"]
        said += [f"  {one}" for one in self.violations]
        if self.count > len(self.violations):
            said.append(f"  and {self.count - len(self.violations)} more")
        if self.broken:
            said.append(f"  To fix: {self.check.hint}")
        return "\n".join([*said, *([f"  {self.reason}"] if self.reason else [])])


def examine(check: Check, subject: CheckSubject) -> CheckFinding:
    """Run a check; whatever the engine raises in it is a violation, but that a disk is full."""
    found: list[str] = []
    try:
        found.extend(islice(check.violations(subject), COUNTED))
    except NotChecked as exc:
        return CheckFinding(check, CheckOutcome.NOT_CHECKED, reason=between(str(exc), LONGEST))
    except (KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as exc:  # noqa: BLE001  an exit or a panic breaks the promise too
        found.append(raised(exc))
    if not found:
        return CheckFinding(check, CheckOutcome.HOLDS)
    first = tuple(between(one, LONGEST) for one in found[:LISTED])
    return CheckFinding(check, CheckOutcome.BROKEN, first, len(found))
