"""Stage ``import``: take a dataset over from another format, and count what is wrong with it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from harness.core.digest import DocumentsDigest, of_queries
from harness.core.errors import DatasetError
from harness.core.files import replacing_folder
from harness.core.qrels import Qrels
from harness.core.records import Document, Query
from harness.corpus import beir, card, jsonl, prepared, topics, trec
from harness.corpus.card import Card, Digests
from harness.corpus.prepared import DataManifest

NOT_STATED = "not stated"
SHOWN = 5
"""Ids that a message lists; the report has all."""


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

    @property
    def warnings(self) -> tuple[str, ...]:
        """One sentence for each thing that is not as it should be."""
        found = (
            ("judged documents are not in the corpus", self.dangling_documents),
            ("judged queries are not in the query set", self.dangling_queries),
            ("documents are empty", self.empty_documents),
            ("queries are empty", self.empty_queries),
        )
        return tuple(f"{len(ids)} {what}: {_few(ids)}." for what, ids in found if ids)


def import_beir(
    path: Path,
    name: str,
    datasets: Path,
    qrels: Path,
    *,
    split: str,
    about: About = NOTHING_STATED,
    allow_dangling: bool = False,
    force: bool = False,
) -> ImportReport:
    """Register one split of a BEIR folder as ``datasets/<name>`` and ``qrels/<name>``.

    Only queries that the split judges are taken, as BEIR does.

    Raises:
        BadFile: a file is missing or malformed, or an id comes twice.
        DatasetError: the name is taken and ``force`` is not given, or judgements name unknown
            documents or queries and ``allow_dangling`` is not given.
    """
    read = beir.Beir(path, split)
    given = _Given(read.documents, read.queries(), read.qrels())
    to = _Target(name, split, datasets, qrels, about, allow_dangling, force)
    return _register(given, to)


def import_trec(
    name: str,
    datasets: Path,
    qrels: Path,
    *,
    topics_file: Path,
    qrels_file: Path,
    corpus_file: Path,
    split: str,
    about: About = NOTHING_STATED,
    allow_dangling: bool = False,
    force: bool = False,
) -> ImportReport:
    """Register TREC topics and judgements over a corpus of JSON lines.

    Topics named ``*.tsv`` are a table ``id<TAB>text``; others have the classic tags.

    Raises:
        BadFile, DatasetError: as ``import_beir``.
    """
    read = topics.table if topics_file.suffix == ".tsv" else topics.tagged
    given = _Given(_corpus(corpus_file), read(topics_file), trec.qrels(qrels_file))
    to = _Target(name, split, datasets, qrels, about, allow_dangling, force)
    return _register(given, to)


def import_jsonl(
    name: str,
    datasets: Path,
    qrels: Path,
    *,
    corpus_file: Path,
    queries_file: Path,
    qrels_file: Path,
    split: str,
    about: About = NOTHING_STATED,
    allow_dangling: bool = False,
    force: bool = False,
) -> ImportReport:
    """Register JSON lines with judgements.

    Judgements named ``*.tsv`` have BEIR's three columns; others TREC's four.

    Raises:
        BadFile, DatasetError: as ``import_beir``.
    """
    judged = beir.qrels if qrels_file.suffix == ".tsv" else trec.qrels
    asked = tuple(jsonl.queries(queries_file))
    given = _Given(_corpus(corpus_file), asked, judged(qrels_file))
    to = _Target(name, split, datasets, qrels, about, allow_dangling, force)
    return _register(given, to)


def load_folder(path: Path, split: str, out: Path) -> DataManifest:
    """Write one split of a BEIR folder as prepared data into ``out``, registering nothing.

    Only queries that the split judges are taken; judgements of unknown documents and
    queries are kept.

    Raises:
        BadFile: a file is missing or malformed, or an id comes twice.
    """
    read = beir.Beir(path, split)
    judged = read.qrels()
    asked = _asked(read.queries(), judged)
    return prepared.write(out, path.resolve().name, split, read.documents(), asked, judged)


@dataclass(frozen=True, slots=True)
class _Given:
    documents: Callable[[], Iterator[Document]]
    queries: tuple[Query, ...]
    qrels: Qrels


@dataclass(frozen=True, slots=True)
class _Target:
    name: str
    split: str
    datasets: Path
    qrels: Path
    about: About
    allow_dangling: bool
    force: bool


@dataclass(slots=True)
class _Corpus:
    """Documents that pass by: their digest, ids, and which are empty."""

    digest: DocumentsDigest = field(default_factory=DocumentsDigest)
    ids: set[str] = field(default_factory=set)
    empty: list[str] = field(default_factory=list)

    def watch(self, documents: Iterable[Document]) -> Iterator[Document]:
        for document in self.digest.watch(documents):
            self.ids.add(document.doc_id)
            if not (document.title.strip() or document.text.strip()):
                self.empty.append(document.doc_id)
            yield document


def _corpus(path: Path) -> Callable[[], Iterator[Document]]:
    return lambda: jsonl.documents(path)


def _register(given: _Given, to: _Target) -> ImportReport:
    folder = to.datasets / to.name
    if folder.exists() and not to.force:
        raise DatasetError(f"{folder} exists; choose another name, or replace it with --force")
    asked = _asked(given.queries, given.qrels)
    corpus = _Corpus()
    with replacing_folder(folder) as beside:
        jsonl.write_documents(beside / "corpus.jsonl", corpus.watch(given.documents()))
        jsonl.write_queries(beside / "queries.jsonl", asked)
        report = _report(given, to, asked, corpus)
        if not to.allow_dangling:
            _refuse_dangling(report)
        card.write(beside, _card(given, to, report, asked, corpus.digest.sha256))
        trec.write_qrels(to.qrels / to.name / f"{to.split}.qrels", given.qrels)
    return report


def _asked(queries: tuple[Query, ...], judged: Qrels) -> tuple[Query, ...]:
    asked = tuple(query for query in queries if query.query_id in judged.grades)
    if not asked:
        raise DatasetError(
            f"none of the {len(queries)} queries is judged (judged are, for example,"
            f" {_few(judged.query_ids)}); give the judgements that belong to these queries"
        )
    return asked


def _report(given: _Given, to: _Target, asked: tuple[Query, ...], corpus: _Corpus) -> ImportReport:
    known = {query.query_id for query in asked}
    judged = {row.doc_id for row in given.qrels.rows()}
    return ImportReport(
        name=to.name,
        split=to.split,
        documents=corpus.digest.count,
        queries=len(asked),
        judgements=sum(1 for _ in given.qrels.rows()),
        unjudged_queries=len(given.queries) - len(asked),
        dangling_documents=tuple(sorted(judged - corpus.ids)),
        dangling_queries=tuple(q for q in given.qrels.query_ids if q not in known),
        empty_documents=tuple(corpus.empty),
        empty_queries=tuple(query.query_id for query in asked if not query.text.strip()),
    )


def _refuse_dangling(report: ImportReport) -> None:
    for what, ids in (
        ("documents that are not in the corpus", report.dangling_documents),
        ("queries that are not in the query set", report.dangling_queries),
    ):
        if ids:
            raise DatasetError(
                f"{report.name}: the judgements of split {report.split!r} name {len(ids)} {what}:"
                f" {_few(ids)}; complete the files, or keep such judgements with --allow-dangling"
            )


def _card(
    given: _Given, to: _Target, report: ImportReport, asked: tuple[Query, ...], corpus: str
) -> Card:
    about = to.about
    return Card(
        name=to.name,
        title=to.name if about.title == NOT_STATED else about.title,
        source=about.source,
        licence=about.licence,
        made_by="harness import",
        kind="files",
        split=to.split,
        documents=report.documents,
        queries=report.queries,
        judgements=report.judgements,
        warnings=[*about.warnings, *report.warnings],
        sha256=Digests(corpus=corpus, queries=of_queries(asked), qrels=card.of_qrels(given.qrels)),
        slices=card.slices(asked),
    )


def _few(ids: tuple[str, ...]) -> str:
    return ", ".join(ids[:SHOWN]) + (", ..." if len(ids) > SHOWN else "")
