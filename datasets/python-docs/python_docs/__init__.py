"""The documentation of installed Python packages, as a data set whose judgements are real.

A document is a public function, class or method: its name, its arguments and its docstring without
the summary line and without the section "See Also". The summary lines are the queries, the
links of "See Also" are the judgements; neither can be read in the documents.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pydantic import Field

from harness.core.errors import DatasetError
from harness.core.printable import many
from harness.core.records import Document, Qrels, Query
from harness.core.store import StrictModel
from harness.corpus.card import Some
from python_docs.harvest import Entry, Harvest, harvest
from python_docs.numpydoc import capped
from python_docs.questions import by_digest, identifiers, natural_language

ABBREVIATIONS = {"np": "numpy", "pd": "pandas", "plt": "matplotlib.pyplot", "mpl": "matplotlib"}


class Harvesting(StrictModel):
    """How the set is made: the table ``[make]`` of its card."""

    namespaces: list[str] = Field(min_length=1)
    """Modules whose names are public."""
    documents: Some
    """At most so many."""
    natural_language: Some
    """At most so many queries of the slice."""
    identifiers: Some
    """At most so many queries of the slice."""
    fewest_words: Some
    """Of a document, beside its summary."""
    characters: Some
    """Longer documents are cut at the end of a paragraph."""


@dataclass(frozen=True, slots=True)
class PythonDocs:
    """The data set, and how much of what the packages hold is in it."""

    documents: tuple[Document, ...]
    queries: tuple[Query, ...]
    qrels: Qrels
    harvested: int
    """Public objects with a docstring."""
    links: int
    """Links of "See Also" between two documents."""
    lost_links: int
    """Names under "See Also" of a document that lead to none: no such object was harvested, its
    text is too short, or the name is ambiguous."""


def read(settings: Harvesting) -> PythonDocs:
    """Harvest the installed packages as the card says.

    An object needs ``fewest_words`` words beside its summary to be a document. All documents
    that a link leads from or to are in the set. Of the others there are as many as ``documents``
    allows, by the SHA-256 of their names; so no judgement is lost to the size.

    Raises:
        DatasetError: a package is missing, or ``documents`` is too small for the linked ones.
    """
    found = harvest(settings.namespaces)
    by_name = {entry.name: entry for entry in found.entries}
    fit = {
        name: entry
        for name, entry in by_name.items()
        if len(entry.docstring.body.split()) >= settings.fewest_words
    }
    resolver = Links(found)
    led = {name: resolver.of(entry) for name, entry in fit.items()}
    links = {name: tuple(n for n in names if n in fit) for name, (names, _) in led.items()}
    chosen = _chosen(links, settings.documents)
    asked = natural_language(by_name, {n: links[n] for n in chosen}, settings.natural_language)
    asked += identifiers(by_name, chosen, settings.identifiers)
    return PythonDocs(
        documents=tuple(_document(by_name[name], settings.characters) for name in chosen),
        queries=tuple(one.query for one in asked),
        qrels=Qrels.of(judgement for one in asked for judgement in one.judgements),
        harvested=len(found.entries),
        links=sum(len(links[name]) for name in chosen),
        lost_links=sum(len(led[n][1]) + len(led[n][0]) - len(links[n]) for n in chosen),
    )


def _chosen(links: Mapping[str, tuple[str, ...]], limit: int) -> tuple[str, ...]:
    linked = {name for name, led in links.items() if led}.union(*links.values())
    if len(linked) > limit:
        raise DatasetError(
            f"{many(len(linked), 'document is')} linked with each other, and the card's [make]"
            f" allows {limit}; raise documents there to {len(linked)} or more"
        )
    others = by_digest(name for name in links if name not in linked)
    return tuple(sorted([*linked, *others[: limit - len(linked)]]))


def _document(entry: Entry, characters: int) -> Document:
    signature = f"{entry.bare}({', '.join(entry.arguments)})"
    package = entry.name.partition(".")[0]
    return Document(
        doc_id=entry.name,
        title=entry.name,
        text=capped(f"{signature}\n\n{entry.docstring.body}", characters),
        metadata={"kind": entry.kind, "package": package},
    )


class Links:
    """Resolves names to the qualified names of a harvest."""

    def __init__(self, found: Harvest) -> None:
        self._aliases: Mapping[str, str] = found.aliases
        self._by_tail = _by_tail(found.aliases)

    def of(self, entry: Entry) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Names that an entry's "See Also" leads to, and names there that lead nowhere.

        A name is looked for as it stands (``np.`` and its like written out), then in the
        class, the module and the packages around the entry, from the inside out. A name with a
        leading dot, or found in none of these, is looked for by its end, if that is the end of one
        object only.
        """
        led: dict[str, None] = {}
        lost: list[str] = []
        for written in entry.docstring.see_also:
            target = self._find(entry, written)
            if target is None:
                lost.append(written)
            elif target != entry.name:
                led[target] = None
        return tuple(led), tuple(lost)

    def _find(self, entry: Entry, written: str) -> str | None:
        name = written.lstrip(".")
        first, dot, rest = name.partition(".")
        full = f"{ABBREVIATIONS.get(first, first)}{dot}{rest}"
        if full in self._aliases:
            return self._aliases[full]
        around = entry.name.split(".")[:-1]
        for depth in range(len(around), 0, -1):
            tried = ".".join([*around[:depth], name])
            if tried in self._aliases:
                return self._aliases[tried]
        ends = {t for t in self._by_tail.get(name, ()) if _package(t) == _package(entry.name)}
        return next(iter(ends)) if len(ends) == 1 else None


def _package(name: str) -> str:
    return name.partition(".")[0]


def _by_tail(aliases: Mapping[str, str]) -> Mapping[str, frozenset[str]]:
    found: dict[str, set[str]] = {}
    for alias, name in aliases.items():
        for tail in _tails(alias):
            found.setdefault(tail, set()).add(name)
    return {tail: frozenset(names) for tail, names in found.items()}


def _tails(name: str) -> Iterable[str]:
    while "." in name:
        name = name.partition(".")[2]
        yield name
