"""What an import took over, where it may put it, and what a reader of the numbers must know."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from harness.core.digest import DocumentsDigest
from harness.core.durable.strays import is_stray
from harness.core.errors import BadFile, DatasetError
from harness.core.printable import between, many
from harness.core.qrels import Qrels
from harness.core.records import Document, Query
from harness.corpus import card
from harness.corpus.cells.identity import OwnWatch, written_otherwise
from harness.corpus.lines import LEFT_OUT

PACKED = ".gz"
OURS = {card.FILE, "corpus.jsonl", "queries.jsonl", LEFT_OUT}
"""What an import writes into the folder of a data set; the lines may be packed later."""
NOT_STATED = "not stated"
SHOWN = 5
"""Ids that a message lists; the report has all."""
LONGEST = 100
"""Characters of an id in a message."""


@dataclass(frozen=True, slots=True)
class About:
    """What the files do not say of themselves."""

    title: str = NOT_STATED
    source: str = NOT_STATED
    licence: str = NOT_STATED
    warnings: tuple[str, ...] = ()


NOTHING_STATED = About()


@dataclass(frozen=True, slots=True)
class ImportReport:
    """What was taken over, and what a reader of the numbers must know of it."""

    name: str
    split: str
    documents: int
    queries: int
    judgements: int
    unjudged_queries: int
    """Queries left out, since the split has no judgement of them."""
    dangling_documents: tuple[str, ...]
    """Judged, and not in the corpus; their judgements are kept."""
    dangling_queries: tuple[str, ...]
    """Judged, and not among the queries; their judgements are kept."""
    empty_documents: tuple[str, ...]
    """In the corpus with neither title nor text."""
    empty_queries: tuple[str, ...]
    own: tuple[str, ...] = ()
    """What was found of queries that are themselves documents."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """One sentence for each thing that is not as it should be."""
        found = (
            ("judged document is", "not in the corpus", self.dangling_documents),
            ("judged query is", "not in the query set", self.dangling_queries),
            ("document is", "empty", self.empty_documents),
            ("query is", "empty", self.empty_queries),
        )
        left_out = (
            "Without a judgement, and so left out:"
            f" {self.unjudged_queries} of {self.queries + self.unjudged_queries} queries."
        )
        odd = tuple(f"{many(len(ids), one)} {what}: {few(ids)}." for one, what, ids in found if ids)
        return ((left_out,) if self.unjudged_queries else ()) + odd + self.own


@dataclass(slots=True)
class PassingCorpus:
    """Documents that pass by: their digest, ids, which are empty, and which are queries."""

    own: OwnWatch
    digest: DocumentsDigest = field(default_factory=DocumentsDigest)
    ids: set[str] = field(default_factory=set)
    empty: list[str] = field(default_factory=list)

    def watch(self, documents: Iterable[Document]) -> Iterator[Document]:
        for document in self.digest.watch(self.own.watch(documents)):
            self.ids.add(document.doc_id)
            if not (document.title.strip() or document.text.strip()):
                self.empty.append(document.doc_id)
            yield document


def report(
    name: str, split: str, queries: tuple[Query, ...], qrels: Qrels, corpus: PassingCorpus
) -> ImportReport:
    """Count what was taken over; ``queries`` are all that were given, judged or not.

    Raises:
        DatasetError: the judgements write ids of queries or documents in another way.
    """
    given = {query.query_id for query in queries}
    asked = tuple(query for query in queries if query.query_id in qrels.grades)
    judged = {row.doc_id for row in qrels.rows()}
    unknown = frozenset(qrels.grades) - given
    for what, strange, known in (
        ("query", unknown, given - frozenset(qrels.grades)),
        ("document", judged - corpus.ids, corpus.ids),
    ):
        if pair := written_otherwise(strange, known):
            here, there = (between(one, LONGEST) for one in pair)
            raise DatasetError(
                f"{name}: the judgements of split {split!r} name the {what} {here}, which is"
                f" {there} in the data. Write ids in one way"
            )
    return ImportReport(
        name=name,
        split=split,
        documents=corpus.digest.count,
        queries=len(asked),
        judgements=sum(1 for _ in qrels.rows()),
        unjudged_queries=len(queries) - len(asked),
        dangling_documents=tuple(sorted(judged - corpus.ids)),
        dangling_queries=tuple(q for q in qrels.query_ids if q not in given),
        empty_documents=tuple(corpus.empty),
        empty_queries=tuple(query.query_id for query in asked if not query.text.strip()),
        own=corpus.own.said,
    )


def refuse_dangling(report: ImportReport) -> None:
    """Stop where judgements name what does not exist.

    Raises:
        DatasetError: they do; the message lists some of it and the remedy.
    """
    for one, where, ids in (
        ("document", "the corpus", report.dangling_documents),
        ("query", "the query set", report.dangling_queries),
    ):
        if ids:
            raise DatasetError(
                f"{report.name}: the judgements of split {report.split!r} name"
                f" {many(len(ids), one)} not in {where}: {few(ids)}; complete the files, or keep"
                " such judgements with --allow-dangling"
            )


def few(ids: tuple[str, ...]) -> str:
    """List some ids, fit to print."""
    shown = ", ".join(between(one, LONGEST) for one in ids[:SHOWN])
    return shown + (", ..." if len(ids) > SHOWN else "")


def check_free(folder: Path, judged: Path, *, force: bool) -> None:
    """Let an import pass into ``folder`` and ``judged``, its file of judgements.

    What is there already is replaced with ``force`` alone, and only where it bears a card of the
    name of the folder and holds nothing else than an import writes.

    Raises:
        DatasetError: it is there, or is not what an import wrote.
    """
    if not (folder.exists() or folder.is_symlink()):
        if judged.exists():
            problem = f"{judged}: is there, and no data set in {folder} that it belongs to"
            raise DatasetError(f"{problem}; move it away, or choose another name")
        return
    if not force:
        raise DatasetError(f"{folder} exists; choose another name, or replace it with --force")
    hint = "move it away, or choose another name; nothing was replaced"
    try:
        name = card.read(folder).name if not folder.is_symlink() else ""
    except BadFile as exc:
        raise DatasetError(f"{folder}: bears no card of an import ({exc}) {hint}") from exc
    if name != folder.name:
        raise DatasetError(f"{folder}: its card is of {name!r}, or it is a link; {hint}")
    for path in sorted(folder.iterdir()):
        if is_stray(Path(path.name)):
            continue
        if path.name.removesuffix(PACKED) not in OURS or not path.is_file():
            raise DatasetError(f"{path}: was not written by an import; {hint}")
