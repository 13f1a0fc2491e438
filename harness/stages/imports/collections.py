"""Stage ``import``: take a dataset over from another format, and count what is wrong with it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from harness.core import digest
from harness.core.digest import of_queries
from harness.core.durable.journal import Change, changing
from harness.core.durable.owned import check_apart
from harness.core.durable.scratch import scratch
from harness.core.errors import DatasetError
from harness.core.files import replacing_folder, write_text
from harness.core.names import check_distinct, checked
from harness.core.printable import many
from harness.core.qrels import Qrels
from harness.core.records import FIELDS, Document, Query
from harness.corpus import beir, card, jsonl, mbox, pool, prepared, topics, trec
from harness.corpus.card import Card, Digests
from harness.corpus.cells.identity import OwnWatch
from harness.corpus.form import with_forms
from harness.corpus.lines import LEFT_OUT
from harness.stages.imports.report import (
    NOT_STATED,
    NOTHING_STATED,
    About,
    ImportReport,
    PassingCorpus,
    check_free,
    few,
    refuse_dangling,
    report,
)

CORPUS = "corpus.jsonl"


@dataclass(frozen=True, slots=True)
class Target:
    """Where a data set goes, and what is said of it.

    Its documents and queries become ``datasets/<name>``, its judgements ``qrels/<name>``.
    """

    name: str
    datasets: Path
    qrels: Path
    split: str
    about: About = NOTHING_STATED
    allow_dangling: bool = False
    """Whether judgements may name unknown documents or queries."""
    force: bool = False
    """Whether a data set of this name that an import wrote is replaced."""


def import_beir(
    path: Path,
    to: Target,
    *,
    fields: tuple[str, ...] = FIELDS,
    forms: bool = False,
) -> ImportReport:
    """Register one split of a BEIR folder.

    Only queries that the split judges are taken, as BEIR does. Of the documents only ``fields``
    are; with ``forms`` each query is put into the slice of its form.

    Raises:
        BadFile: a file is missing or malformed, or an id comes twice.
        BadName: no data set or split can be called so.
        DatasetError: the name is taken and ``force`` is not given, or it is taken by what no
            import wrote. Or judgements name unknown documents or queries and ``allow_dangling`` is
            not given.
    """
    read = beir.Beir(path, to.split, fields)
    given = Given(
        read.documents, _queries(read, forms=forms), read.qrels(), (path / CORPUS,), fields
    )
    return register(given, to)


def import_trec(
    to: Target,
    *,
    topics_file: Path,
    qrels_file: Path,
    corpus_file: Path,
) -> ImportReport:
    """Register TREC topics and judgements over a corpus of JSON lines.

    Topics named ``*.tsv`` are a table ``id<TAB>text``; others have the classic tags.

    Raises:
        BadFile, DatasetError: as ``import_beir``.
    """
    read = topics.table if topics_file.suffix == ".tsv" else topics.tagged
    files = corpus_file, topics_file, qrels_file
    given = Given(_corpus(corpus_file), read(topics_file), trec.qrels(qrels_file), files)
    return register(given, to)


def import_jsonl(
    to: Target,
    *,
    corpus_file: Path,
    queries_file: Path,
    qrels_file: Path,
) -> ImportReport:
    """Register JSON lines with judgements.

    Judgements named ``*.tsv`` have BEIR's three columns; others TREC's four. A pool is taken as
    far as it is judged, and the card counts the rest.

    Raises:
        BadFile, DatasetError: as ``import_beir``.
    """
    judged, about = judgements(qrels_file, to.about)
    asked = tuple(jsonl.queries(queries_file))
    files = corpus_file, queries_file, qrels_file
    given = Given(_corpus(corpus_file), asked, judged, files)
    return register(given, replace(to, about=about))


def load_folder(
    path: Path,
    split: str,
    out: Path,
    *,
    fields: tuple[str, ...] = FIELDS,
    forms: bool = False,
) -> ImportReport:
    """Write one split of a BEIR folder as prepared data into ``out``, registering nothing.

    Only queries that the split judges are taken; judgements of unknown documents and
    queries are kept, and reported. ``fields`` and ``forms`` as in ``import_beir``.

    Raises:
        BadFile: a file is missing or malformed, or an id comes twice.
    """
    read = beir.Beir(path, split, fields)
    name, queries, judged = path.resolve().name, _queries(read, forms=forms), read.qrels()
    asked = _asked(queries, judged)
    corpus = PassingCorpus(OwnWatch(asked))
    documents, others = corpus.watch(read.documents()), _others(queries, judged)
    prepared.write(
        out, name, split, documents, asked, judged,
        fields=fields, left_out=len(others), elsewhere=others,
    )  # fmt: skip
    return report(name, split, queries, judged, corpus)


@dataclass(frozen=True, slots=True)
class Given:
    """What was read, and of which files."""

    documents: Callable[[], Iterator[Document]]
    queries: tuple[Query, ...]
    qrels: Qrels
    reads: tuple[Path, ...]
    fields: tuple[str, ...] = FIELDS


def _queries(read: beir.Beir, *, forms: bool) -> tuple[Query, ...]:
    return tuple(with_forms(read.queries())) if forms else read.queries()


def _corpus(path: Path) -> Callable[[], Iterator[Document]]:
    return lambda: jsonl.documents(path)


def register(given: Given, to: Target) -> ImportReport:
    """Write a data set, its judgements and its card, together or not at all.

    Raises:
        BadName, DatasetError: as ``import_beir``.
    """
    checked("a split", to.split)
    folder, qrels = to.datasets / checked("a data set", to.name), to.qrels / to.name
    check_distinct("a data set", to.name, (path.name for path in to.datasets.glob("*")))
    with changing(folder, within=(folder, qrels), what="import") as change:
        return _registered(given, to, folder, change)


def _registered(given: Given, to: Target, folder: Path, change: Change) -> ImportReport:
    judged = to.qrels / to.name / f"{to.split}.qrels"
    check_apart(folder, given.reads)
    check_free(folder, judged, force=to.force)
    asked = _asked(given.queries, given.qrels)
    corpus, others = PassingCorpus(OwnWatch(asked)), _others(given.queries, given.qrels)
    with replacing_folder(folder, durable=True) as beside:
        jsonl.write_documents(beside / CORPUS, corpus.watch(given.documents()))
        jsonl.write_queries(beside / "queries.jsonl", asked)
        if others:
            write_text(beside / LEFT_OUT, "".join(f"{query_id}\n" for query_id in others))
        found = report(to.name, to.split, given.queries, given.qrels, corpus)
        if not to.allow_dangling:
            refuse_dangling(found)
        card.write(beside, _card(given, to, found, asked, corpus.digest.sha256))
        change.write(judged, trec.qrels_text(given.qrels))
        change.prepare(folder / card.FILE, digest.of_file(beside / card.FILE))
    return found


def _asked(queries: tuple[Query, ...], judged: Qrels) -> tuple[Query, ...]:
    asked = tuple(query for query in queries if query.query_id in judged.grades)
    if not asked:
        raise DatasetError(
            f"none of the {len(queries)} queries is judged (judged are, for example,"
            f" {few(judged.query_ids)}); give the judgements that belong to these queries"
        )
    return asked


def _others(queries: tuple[Query, ...], judged: Qrels) -> tuple[str, ...]:
    return tuple(one.query_id for one in queries if one.query_id not in judged.grades)


def _card(
    given: Given, to: Target, import_report: ImportReport, asked: tuple[Query, ...], corpus: str
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
        documents=import_report.documents,
        queries=import_report.queries,
        judgements=import_report.judgements,
        warnings=[*about.warnings, *import_report.warnings],
        sha256=Digests(corpus=corpus, queries=of_queries(asked), qrels=card.of_qrels(given.qrels)),
        slices=card.slices(asked),
        fields=None if given.fields == FIELDS else [*given.fields],
        left_out=import_report.unjudged_queries or None,
    )


def judgements(path: Path, about: About) -> tuple[Qrels, About]:
    """Read a file by its name; what a pool leaves open is counted in ``about``.

    Raises:
        BadFile: the file is malformed, or holds no judgement.
    """
    if path.suffix == ".tsv":
        return beir.qrels(path), about
    if not pool.beside(path).is_file():
        return trec.qrels(path), about
    found = pool.read(path)
    judged = trec.collect(path, enumerate(found.judgements, start=1))
    odd = f"The pool leaves {many(len(found.open), 'pair')} open."
    return judged, replace(about, warnings=(*about.warnings, odd)) if found.open else about


class MboxImport(NamedTuple):
    """What was taken over, and what is odd about single mails."""

    report: ImportReport
    notes: tuple[mbox.Note, ...]


def import_mbox(to: Target, *, mbox_file: Path, queries_file: Path, qrels_file: Path) -> MboxImport:
    """Register the mails of an mbox file; judgements name them by Message-ID, without brackets.

    Mail holds neither queries nor judgements: both are JSON lines and TREC lines as in
    ``import_jsonl``. What is odd about mails is counted on the card.

    Raises:
        BadFile, DatasetError: as ``import_jsonl``.
    """
    found = mbox.read(mbox_file)
    odd = (*to.about.warnings, *mbox.problems_of(found))
    with scratch() as folder:
        corpus = folder / "corpus.jsonl"
        jsonl.write_documents(corpus, found.documents)
        report = import_jsonl(
            replace(to, about=replace(to.about, warnings=odd)),
            corpus_file=corpus,
            queries_file=queries_file,
            qrels_file=qrels_file,
        )
    return MboxImport(report, found.notes)
