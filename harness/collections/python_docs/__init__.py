"""The documentation of installed Python packages, as a data set whose judgements are real.

A document is a public function, class or method: its name, its arguments and its docstring without
the summary line and without the section "See Also". The summary lines are the queries, the
links of "See Also" are the judgements; neither can be read in the documents.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from harness.collections.python_docs.harvest import Entry, harvest
from harness.collections.python_docs.library import installed
from harness.collections.python_docs.links import Links
from harness.collections.python_docs.numpydoc import capped
from harness.collections.python_docs.questions import by_digest, identifiers, natural_language
from harness.core.errors import DatasetError
from harness.core.qrels import Qrels
from harness.core.records import Document, Query
from harness.corpus.card import Harvesting


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


def versions(settings: Harvesting) -> dict[str, str]:
    """Installed version of each package that the card's namespaces lie in.

    Raises:
        DatasetError: a package is not installed.
    """
    return installed({namespace.partition(".")[0] for namespace in settings.namespaces})


def _chosen(links: Mapping[str, tuple[str, ...]], limit: int) -> tuple[str, ...]:
    linked = {name for name, led in links.items() if led}.union(*links.values())
    if len(linked) > limit:
        raise DatasetError(
            f"{len(linked)} documents are linked with each other, and the card's [harvest]"
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
