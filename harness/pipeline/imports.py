"""Stage ``import``: data sets of other formats, and what is wrong with them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.core import digest
from harness.core.digest import DocumentsDigest, of_queries
from harness.core.errors import BadFile, DatasetError, UnknownName
from harness.core.files import replacing_folder, write_text
from harness.core.folders import changing, check_apart, is_stray
from harness.core.names import check_distinct, checked
from harness.core.printable import between, many
from harness.core.records import FIELDS, Document, Judgement, Qrels, Query
from harness.corpus import beir, card, prepared, trec
from harness.corpus import judgements as corpus_judgements
from harness.corpus.card import DatasetCard, Digests
from harness.corpus.cells import OwnWatch, written_otherwise
from harness.corpus.prepared import Prepared, with_forms
from harness.corpus.trec import LEFT_OUT, UNCARRIED

if TYPE_CHECKING:
    from harness.corpus import mbox

PACKED = ".gz"
OURS = {card.FILE, "corpus.jsonl", "queries.jsonl", LEFT_OUT}
"""What an import writes into the folder of a data set; the lines may be packed later."""
NOT_STATED = "not stated"
SHOWN = 5
LONGEST = 100


@dataclass(frozen=True, slots=True)
class ImportReport:
    """What was taken over, and what a reader of the numbers must know of it."""

    name: str
    split: str
    documents: int
    queries: int
    judgements: int
    left_out: int
    warnings: tuple[str, ...]


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
    to: tuple[str, str], queries: tuple[Query, ...], qrels: Qrels, corpus: PassingCorpus
) -> ImportReport:
    """Count what was taken over ``to`` a name and a split; ``queries`` are all that were given."""
    name, split = to
    given = {query.query_id for query in queries}
    asked = tuple(query for query in queries if query.query_id in qrels.grades)
    judged = {row.doc_id for row in qrels.rows()}
    unknown = frozenset(qrels.grades) - given
    documents = tuple(sorted(judged - corpus.ids))
    asked_for = tuple(query_id for query_id in qrels.query_ids if query_id not in given)
    said = f"{name}: the judgements of split {split!r} name"
    for what, strange, known in (
        ("query", unknown, given - frozenset(qrels.grades)),
        ("document", judged - corpus.ids, corpus.ids),
    ):
        if pair := written_otherwise(strange, known):
            here, there = (between(one, LONGEST) for one in pair)
            raise DatasetError(
                f"{said} the {what} {here}, which is {there} in the data. Write ids in one way"
            )
    left_out, count = len(queries) - len(asked), sum(1 for _ in qrels.rows())
    warnings = [
        f"{many(len(ids), one)} {what}: {few(ids)}."
        for one, what, ids in (
            ("judged document is", "not in the corpus", documents),
            ("judged query is", "not in the query set", asked_for),
            ("document is", "empty", tuple(corpus.empty)),
            ("query is", "empty", tuple(q.query_id for q in asked if not q.text.strip())),
        )
        if ids
    ]
    if left_out and count:
        without = f"Without a judgement, and so left out: {left_out} of {len(queries)} queries."
        warnings.insert(0, without)
    elif left_out:
        warnings.insert(0, "Nothing is judged, so no measure of quality has a value.")
    every = (*warnings, *corpus.own.said)
    return ImportReport(name, split, corpus.digest.count, len(asked), count, left_out, every)


def few(ids: tuple[str, ...]) -> str:
    """List some ids, fit to print."""
    shown = ", ".join(between(one, LONGEST) for one in ids[:SHOWN])
    return shown + (", ..." if len(ids) > SHOWN else "")


def check_free(folder: Path, judged: Path, *, force: bool) -> None:
    """Check that an import may write ``folder`` and ``judged``, its file of judgements."""
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
    for path in sorted(path for path in folder.iterdir() if not is_stray(Path(path.name))):
        if path.name.removesuffix(PACKED) not in OURS or not path.is_file():
            raise DatasetError(f"{path}: was not written by an import; {hint}")


CORPUS = "corpus.jsonl"


@dataclass(frozen=True, slots=True)
class ImportTarget:
    """Where a data set goes (``datasets/<name>``, ``qrels/<name>``), and what is said of it."""

    name: str
    datasets: Path
    qrels: Path
    split: str
    title: str = NOT_STATED
    source: str = NOT_STATED
    licence: str = NOT_STATED
    warnings: tuple[str, ...] = ()
    """What is known to be odd before anything was read."""
    force: bool = False

    def warned(self, *warnings: str) -> ImportTarget:
        """Return the target with further warnings."""
        return replace(self, warnings=(*self.warnings, *warnings))


def import_beir(
    path: Path, to: ImportTarget, *, fields: tuple[str, ...] = FIELDS, forms: bool = False
) -> ImportReport:
    """Register the queries that one split of a BEIR folder judges, and ``fields`` of documents."""
    read = beir.Beir(path, to.split, fields)
    given = ImportedFiles(
        read.documents, _queries(read, forms=forms), read.qrels(), (path / CORPUS,), fields
    )
    return register(given, to)


def import_trec(
    to: ImportTarget, *, topics_file: Path, qrels_file: Path, corpus_file: Path
) -> ImportReport:
    """Register TREC topics (``*.tsv``: a table) and judgements over a corpus of JSON lines."""
    read = trec.table if topics_file.suffix == ".tsv" else trec.tagged
    files = corpus_file, topics_file, qrels_file
    given = ImportedFiles(
        partial(beir.documents, corpus_file), read(topics_file), trec.qrels(qrels_file), files
    )
    return register(given, to)


def import_jsonl(
    to: ImportTarget, *, corpus_file: Path, queries_file: Path, qrels_file: Path
) -> ImportReport:
    """Register JSON lines with judgements: BEIR's (``*.tsv``), TREC's, or of a pool."""
    judged, odd = judgements(qrels_file)
    asked = tuple(beir.queries(queries_file))
    files = corpus_file, queries_file, qrels_file
    given = ImportedFiles(partial(beir.documents, corpus_file), asked, judged, files)
    return register(given, to.warned(*odd))


def load_folder(
    path: Path, split: str, out: Path, *, fields: tuple[str, ...] = FIELDS, forms: bool = False
) -> ImportReport:
    """Write one split of a BEIR folder as prepared data into ``out``, registering nothing."""
    read = beir.Beir(path, split, fields)
    name, queries, judged = path.resolve().name, _queries(read, forms=forms), read.qrels()
    asked = _asked(queries, judged) if judged.grades else queries
    corpus = PassingCorpus(OwnWatch(asked))
    documents = corpus.watch(read.documents())
    others = _others(queries, judged) if judged.grades else ()
    prepared.write(
        out, name, split, documents, asked, judged,
        fields=fields, left_out=len(others), elsewhere=others,
    )  # fmt: skip
    return report((name, split), queries, judged, corpus)


@dataclass(frozen=True, slots=True)
class ImportedFiles:
    """What was read, and of which files."""

    documents: Callable[[], Iterator[Document]]
    queries: tuple[Query, ...]
    qrels: Qrels
    reads: tuple[Path, ...]
    fields: tuple[str, ...] = FIELDS


def _queries(read: beir.Beir, *, forms: bool) -> tuple[Query, ...]:
    return tuple(with_forms(read.queries())) if forms else read.queries()


def register(given: ImportedFiles, to: ImportTarget) -> ImportReport:
    """Write a data set, its judgements and its card, together or not at all."""
    checked("a split", to.split)
    folder, qrels = to.datasets / checked("a data set", to.name), to.qrels / to.name
    check_distinct("a data set", to.name, (path.name for path in to.datasets.glob("*")))
    judged = qrels / f"{to.split}.qrels"
    with changing(folder, within=(folder, qrels), what="import") as change:
        check_apart(folder, given.reads)
        check_free(folder, judged, force=to.force)
        asked = _asked(given.queries, given.qrels)
        corpus, others = PassingCorpus(OwnWatch(asked)), _others(given.queries, given.qrels)
        with replacing_folder(folder, durable=True) as beside:
            beir.write_documents(beside / CORPUS, corpus.watch(given.documents()))
            beir.write_queries(beside / "queries.jsonl", asked)
            if others:
                write_text(beside / LEFT_OUT, "".join(f"{query_id}\n" for query_id in others))
            found = report((to.name, to.split), given.queries, given.qrels, corpus)
            made = DatasetCard(
                name=to.name,
                title=to.name if to.title == NOT_STATED else to.title,
                source=to.source,
                licence=to.licence,
                made_by="harness import",
                kind="files",
                split=to.split,
                documents=found.documents,
                queries=found.queries,
                judgements=found.judgements,
                warnings=[*to.warnings, *found.warnings],
                sha256=Digests(
                    corpus=corpus.digest.sha256,
                    queries=of_queries(asked),
                    qrels=card.of_qrels(given.qrels),
                ),
                slices=card.slices(asked),
                fields=None if given.fields == FIELDS else [*given.fields],
                left_out=found.left_out or None,
            )
            card.write(beside, made)
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


def judgements(path: Path) -> tuple[Qrels, tuple[str, ...]]:
    """Read a file by its name, and count what a pool leaves open."""
    if path.suffix == ".tsv":
        return beir.qrels(path), ()
    if not corpus_judgements.texts_path(path).is_file():
        return trec.qrels(path), ()
    found = corpus_judgements.read_pool(path)
    judged = trec.collect(path, enumerate(found.judgements, start=1))
    odd = (f"The pool leaves {many(len(found.open), 'pair')} open.",) if found.open else ()
    return judged, odd


def import_mbox(
    to: ImportTarget, *, mbox_file: Path, queries_file: Path, qrels_file: Path
) -> tuple[ImportReport, tuple[mbox.MailOddity, ...]]:
    """Register the mails of an mbox file, by Message-ID without brackets; list what is odd."""
    from harness.corpus import mbox

    found = mbox.read(mbox_file)
    for at, mail in enumerate(found.documents, start=1):
        trec.checked_id(mbox_file, None, f"{at}. mail's", mail.doc_id)
    judged, odd = judgements(qrels_file)
    asked = tuple(beir.queries(queries_file))
    files = mbox_file, queries_file, qrels_file
    given = ImportedFiles(lambda: iter(found.documents), asked, judged, files)
    return register(given, to.warned(*mbox.problems_of(found), *odd)), found.notes


def import_ir_datasets(to: ImportTarget, *, collection: str) -> ImportReport:
    """Register a collection of ir_datasets, which fetches what this machine does not have."""
    import ir_datasets

    try:
        found: Any = ir_datasets.load(collection)
    except KeyError as exc:
        near = get_close_matches(collection, ir_datasets.registry, n=SHOWN, cutoff=0.0)
        raise UnknownName("collection of ir_datasets", collection, near) from exc
    for part in ("docs", "queries", "qrels"):
        if not getattr(found, f"has_{part}")():
            problem = f"{collection}: has no {part} in ir_datasets"
            raise DatasetError(f"{problem}; choose one that has, such as beir/scifact/test")
    queries = tuple(Query(_id(one.query_id), one.default_text()) for one in found.queries_iter())
    qrels = Qrels.of(
        Judgement(_id(one.query_id), _id(one.doc_id), one.relevance) for one in found.qrels_iter()
    )
    given = ImportedFiles(lambda: map(_document, found.docs_iter()), queries, qrels, ())
    return register(given, to)


def _document(one: Any) -> Document:  # noqa: ANN401  a tuple of ir_datasets
    title, text = getattr(one, "title", None), getattr(one, "text", None)
    doc_id = _id(one.doc_id)
    if isinstance(text, str):
        return Document(doc_id, title if isinstance(title, str) else "", text)
    return Document(doc_id, "", one.default_text())


def _id(given: str) -> str:
    """Check an id."""
    if not given or any(one in UNCARRIED for one in given):
        raise DatasetError(f"the id {given!r} is empty or holds white space; it cannot be imported")
    return given


def import_ratings(
    to: ImportTarget, *, kind: str, ratings_file: Path, corpus_file: Path, text: str = ""
) -> ImportReport:
    """Register the ratings of a format of ``harness.corpus.exchange``."""
    from harness.corpus.exchange import reader

    found = reader(kind)(ratings_file, text)
    odd = f"{many(found.unrated, 'pair was')} listed without a rating and left out."
    given = ImportedFiles(
        partial(beir.documents, corpus_file),
        found.queries,
        found.qrels,
        (ratings_file, corpus_file),
    )
    return register(given, to.warned(odd) if found.unrated else to)


def convert(data: Prepared, name: str, kind: str, to: Path) -> tuple[Path, ...]:
    """Write prepared data into the folder ``to``; give the files."""
    from harness.corpus.exchange import Data, writer

    writer(kind)(to, Data(name, data.documents, tuple(data.queries()), data.qrels()))
    return tuple(sorted(path for path in to.rglob("*") if path.is_file()))
