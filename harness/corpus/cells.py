"""Cells of tables of other tools: columns, grades and ids."""

import math
import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from numbers import Real
from pathlib import Path
from typing import Annotated, Literal

from pydantic import PlainSerializer

from harness.core.printable import between, many
from harness.core.records import Document, Query
from harness.core.run import Run
from harness.core.store import Artifact, Json

QUERY = frozenset({"queryid", "qid", "query", "topic", "topicid"})
DOCUMENT = frozenset({"corpusid", "docid", "docno", "documentid", "did", "doc", "document"})
GRADE_COLUMNS = frozenset({"score", "relevance", "grade", "rel", "label", "rating", "judgment"})
TEXT = frozenset({"text", "querytext", "query", "title", "topic"})
ID = frozenset({"id", "queryid", "qid", "topicid", "num"})


def plain(name: str) -> str:
    """Return the form in which the names of a column are compared: ``Query-ID`` is ``queryid``."""
    return "".join(filter(str.isalnum, name.casefold()))


def places(head: Sequence[str], wanted: Sequence[Collection[str]]) -> tuple[int, ...] | None:
    """Find each wanted column in a head; None where one is missing or there are several."""
    names = [plain(name) for name in head]
    found = [[at for at, name in enumerate(names) if name in known] for known in wanted]
    unique = all(len(one) == 1 for one in found) and len({one[0] for one in found}) == len(found)
    return tuple(one[0] for one in found) if unique else None


GRADE_FORM = re.compile(r"([+-]?[0-9]{1,9})(?:\.0*)?", re.ASCII)
MOST = 10**9
HINT = "Map the scale to integers (gains are linear in the grade)."


def whole(found: object) -> int | None:
    """Read a grade: an integer of at most nine digits, also written ``2.0``; None for all else."""
    if isinstance(found, bool):
        return None
    if isinstance(found, Real):
        value = float(found)
        fits = math.isfinite(value) and value == int(value) and abs(value) < MOST
        return int(value) if fits else None
    match = GRADE_FORM.fullmatch(found.strip()) if isinstance(found, str) else None
    return int(match[1]) if match else None


def problem(found: object) -> str:
    """Describe what is wrong with a grade that is not whole."""
    return f"the grade {found!r} is not an integer"


FILE = "ids.json"
OwnDocuments = Literal["drop", "keep"]
EXAMPLES = 3
LONGEST = 60


def normal(name: str) -> str:
    """Return the form shared by ids that tools write otherwise: ``00012``, ``12.0``, ``12``."""
    plain = unicodedata.normalize("NFKC", name).strip().casefold()
    whole, _, rest = plain.partition(".")
    if whole.isdecimal() and not rest.strip("0"):
        return str(int(whole))
    head = plain.rstrip("0123456789")
    return head + plain[len(head) :].lstrip("0")


def examples(strange: Collection[str], known: Iterable[str]) -> str:
    """Name some ids that are not among ``known``, each with the one that may be meant."""
    meant = {normal(name): name for name in known}
    named = sorted(strange, key=lambda name: (normal(name) not in meant, name))[:EXAMPLES]
    pairs = ((between(name, LONGEST), meant.get(normal(name))) for name in named)
    return ", ".join(f"{name} (perhaps {found})" if found else name for name, found in pairs)


def written_otherwise(here: Collection[str], there: Collection[str]) -> tuple[str, str] | None:
    """Find an id of ``here`` that is written otherwise in ``there``; None where ids fit.

    They differ where no id is in both and two have one form. They also do where all zeros before
    numbers are gone on one side: pandas reads ``00012`` as a number.
    """
    other = {normal(name): name for name in there}
    apart = set(here).isdisjoint(there)
    one_sided = _padded(here) != _padded(there)
    if not (apart or one_sided):
        return None
    known = frozenset(there)
    pairs = ((name, other[normal(name)]) for name in sorted(here) if normal(name) in other)
    return next((pair for pair in pairs if pair[0] not in known and pair[1] not in here), None)


def _padded(names: Iterable[str]) -> bool:
    return any(name.isdecimal() and name[0] == "0" and len(name) > 1 for name in names)


Sorted = Annotated[frozenset[str], PlainSerializer(sorted)]


@dataclass(frozen=True, slots=True)
class Ids:
    """What is known of the ids of prepared data beside the queries themselves."""

    own: Sorted
    """Queries that are themselves documents, whose hit of their own id is taken out."""
    elsewhere: Sorted


IDS: Artifact[Ids] = Json("ids of queries", Ids, remedy="Run: harness stage prepare.")
NO_IDS = Ids(frozenset(), frozenset())


@dataclass(slots=True)
class OwnWatch:
    """Finds the queries that are themselves documents, while the documents pass by."""

    queries: Iterable[Query]
    rule: OwnDocuments | None = None
    """None decides by the texts: the hit goes only where id and text are equal."""
    same: set[str] = field(default_factory=set)
    strangers: set[str] = field(default_factory=set)

    def watch(self, documents: Iterable[Document]) -> Iterator[Document]:
        """Pass documents on."""
        texts = {query.query_id: _words(query.text) for query in self.queries}
        for document in documents:
            if (asked := texts.get(document.doc_id)) is not None:
                whole = _words(f"{document.title} {document.text}")
                alike = asked and asked in {_words(document.text), _words(document.title), whole}
                (self.same if alike else self.strangers).add(document.doc_id)
            yield document

    @property
    def own(self) -> frozenset[str]:
        """Queries whose hit of their own id is taken out."""
        if self.rule == "keep":
            return frozenset()
        return frozenset(self.same | self.strangers if self.rule == "drop" else self.same)

    @property
    def said(self) -> tuple[str, ...]:
        """Describe what was found, a sentence each."""
        found = []
        if own := self.own:
            found.append(
                f"{many(len(own), 'query is')} also in the corpus: a hit of the query's own id is"
                " left out of each run, as BEIR does."
            )
        if self.rule is None and self.strangers:
            named = ", ".join(sorted(self.strangers)[:EXAMPLES])
            found.append(
                f"{many(len(self.strangers), 'query has')} the id of a document with another text:"
                f' {named}. Set own_documents in card.toml: "keep" if by chance, else "drop".'
            )
        return tuple(found)


def write(folder: Path, ids: Ids) -> None:
    """Write what is known into ``folder``; nothing where nothing is."""
    if ids != NO_IDS:
        IDS.write(folder / FILE, ids)


def read(folder: Path) -> Ids:
    """Read what ``write`` wrote."""
    path = folder / FILE
    return IDS.read(path) if path.is_file() else NO_IDS


def without_own(run: Run, own: Collection[str]) -> Run:
    """Take out the hits that are the query itself, as BEIR's ``ignore_identical_ids`` does."""
    if not own:
        return run
    rows = (
        row._replace(hits=tuple(hit for hit in row.hits if hit.doc_id != row.query_id))
        if row.query_id in own
        else row
        for row in run.rows()
    )
    return replace(
        Run.of(run.arm, rows),
        conditions=run.conditions,
        retries=run.retries,
        rate_limited=run.rate_limited,
    )


def _words(text: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())
