"""Prepared data: the one form in which every later stage reads a dataset."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field

from harness.core import digest
from harness.core.digest import of_json, of_queries
from harness.core.errors import BadFile
from harness.core.files import replacing_folder
from harness.core.printable import counted
from harness.core.records import FIELDS, Document, Qrels, Query
from harness.core.scores import BY_TEXT, Clustering
from harness.core.store import Artifact, Json
from harness.corpus import beir, card, cells, clusters, trec
from harness.corpus.cells import Ids, OwnDocuments, OwnWatch
from harness.corpus.clusters import CLUSTERS, NONE, DataSha256, Groups, QueryClusters, Similar

IDENTIFIER, KEYWORD, NATURAL = "form-identifier", "form-keyword", "form-natural-language"
SIGNS = ("_", "/")
MOST_WORDS, LONGEST_MEAN = 2, 10
"""Of a keyword query: words, and characters of a word on average."""


def form(text: str) -> str | None:
    """Name the slice of a text; None where it holds no word.

    An identifier starts with ``br-`` or ``thread:``, has an underscore or a slash, has a word that
    mixes letters and digits, or has only hyphenated words. A keyword query has two words at
    most, of ten characters on average at most. All else is natural language.
    """
    words = text.split()
    if not words:
        return None
    if (
        words[0].lower().startswith(("br-", "thread:"))
        or any(sign in text for sign in SIGNS)
        or any(any(map(str.isalpha, word)) and any(map(str.isdigit, word)) for word in words)
        or all("-" in word.strip("-") for word in words)
    ):
        return IDENTIFIER
    mean = sum(map(len, words)) / len(words)
    return KEYWORD if len(words) <= MOST_WORDS and mean <= LONGEST_MEAN else NATURAL


def with_forms(queries: Iterable[Query]) -> Iterator[Query]:
    """Add every query to the slice of its form, beside those that it has."""
    for query in queries:
        found = form(query.text)
        yield replace(query, slices=(*query.slices, found)) if found else query


DIGITS = 16
"""Of a digest: 64 bits tell the items of one data set apart."""
SOME = 3
Short = Annotated[str, Field(pattern=f"^[0-9a-f]{{{DIGITS}}}$")]
Judged = Annotated[tuple[int, Short], Field(strict=False)]


class Inventory(BaseModel):
    """Queries and judgements, by query id."""

    model_config = ConfigDict(frozen=True, extra="forbid", ignored_types=(cached_property,))
    queries: dict[str, Short]
    judgements: dict[str, Judged]

    @classmethod
    def of(cls, queries: Iterable[Query], qrels: Qrels) -> "Inventory":
        """Take stock of a data set."""
        return cls(
            queries={query.query_id: of_queries([query])[:DIGITS] for query in queries},
            judgements={
                query_id: (len(grades), of_json(dict(grades))[:DIGITS])
                for query_id, grades in qrels.grades.items()
            },
        )

    @cached_property
    def sha256(self) -> str:
        """Digest of the whole."""
        return of_json(self.model_dump(mode="json"))

    @property
    def judged(self) -> int:
        """Number of judgements."""
        return sum(count for count, _ in self.judgements.values())


REMOVED, ADDED, OTHER = "removed", "added", "changed"
LOST, GAINED, REJUDGED = (
    "without judgements that had some", "with judgements that had none", "with other judgements",
)  # fmt: skip


def changes(before: Inventory, after: Inventory) -> tuple[str, ...]:
    """List what is other in ``after``, each with its number and the first few ids."""
    found = [
        *_moved(before.queries, after.queries, (REMOVED, ADDED, OTHER)),
        *(judged := _moved(before.judgements, after.judgements, (LOST, GAINED, REJUDGED))),
    ]
    if judged:
        found.append(f"{after.judged:,} judgements, {before.judged:,} before")
    return tuple(found)


def _moved(
    before: Mapping[str, object], after: Mapping[str, object], words: tuple[str, str, str]
) -> list[str]:
    both = before.keys() & after.keys()
    kinds = (
        before.keys() - after.keys(),
        after.keys() - before.keys(),
        {item for item in both if before[item] != after[item]},
    )
    return [
        f"{counted(len(ids), 'query')} {what} ({_some(sorted(ids))})"
        for ids, what in zip(kinds, words, strict=True)
        if ids
    ]


def _some(ids: Sequence[str]) -> str:
    return ", ".join(ids[:SOME]) + (", ..." if len(ids) > SOME else "")


CORPUS, QUERIES, QRELS, MANIFEST = "corpus.jsonl", "queries.jsonl", "qrels.trec", "manifest.json"
HINT = "Run: harness stage prepare"
REPEAT = "Repeat the harness run that wrote this folder"


def remedy(folder: Path) -> str:
    """Name what makes prepared data anew: of a project, or of a ``harness run`` below its work."""
    if folder.parent.parent.parent.name == "work":
        return REPEAT
    return f"{HINT} --dataset {folder.parent.name}"


@dataclass(frozen=True, slots=True)
class DataManifest:
    """What prepared data holds."""

    name: str
    split: str
    documents: int
    queries: int
    judgements: int
    corpus_sha256: str
    """``harness.core.digest.of_documents``: what an index's manifest must name."""
    queries_sha256: str
    qrels_sha256: str
    slices: dict[str, int]
    fields: tuple[str, ...] = FIELDS
    """Parts of a document that were kept to be searched."""
    left_out: int = 0
    complete: str = ""
    """Why every relevant document is judged, as the card says; empty where one may not be."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A folder of prepared data; documents are read when they are needed."""

    folder: Path
    manifest: DataManifest

    @classmethod
    def open(cls, folder: Path) -> Self:
        """Open what ``write`` left."""
        for name in (MANIFEST, CORPUS, QUERIES, QRELS):
            if not (folder / name).is_file():
                raise BadFile(folder / name, "missing file", remedy(folder))
        return cls(folder, DATA_MANIFEST.read(folder / MANIFEST, remedy(folder)))

    def documents(self) -> Iterator[Document]:
        """Yield the corpus in its order."""
        return beir.documents(self.folder / CORPUS)

    def queries(self) -> tuple[Query, ...]:
        """Read the query set in its order."""
        return ASKED.read(self.folder / QUERIES)

    def clusters(self, how: Clustering = BY_TEXT) -> Mapping[str, str]:
        """Name the cluster of each query that depends on another one, by its id."""
        return clusters.of_queries(self.queries(), self.near_duplicates(), how)

    def near_duplicates(self) -> Groups:
        """Read which queries have nearly the same words, as they were found once."""
        return self.found().near_duplicates

    def found(self) -> QueryClusters:
        """Read what was found of the queries, by their words, judgements and vectors."""
        about = self.manifest
        sha256 = DataSha256(about.queries_sha256, about.qrels_sha256)
        return clusters.read_clusters(self.folder / CLUSTERS, sha256)

    def parted(self, how: Clustering = BY_TEXT) -> frozenset[str]:
        """Name the near duplicates by words that intents part; none where intents do not count."""
        return frozenset(self.found().parted if how != "none" else ())

    def unlike_words(self) -> str:
        """Return what finds queries of one need in unlike words: a model, intents, or nothing."""
        if (model := self.found().similar.model) != NONE.model:
            return model
        return "intents" if all(query.intent is not None for query in self.queries()) else ""

    def ids(self) -> Ids:
        """Read which queries are documents, and which others were given."""
        return cells.read(self.folder)

    def qrels(self) -> Qrels:
        """Read the judgements."""
        return JUDGED.read(self.folder / QRELS)


DATA_MANIFEST: Artifact[DataManifest] = Json("a manifest", DataManifest, remedy=HINT, strict=True)
ASKED = Artifact("queries", lambda path: tuple(beir.queries(path)), keep=2)


def _judged(path: Path) -> Qrels:
    """Read judgements; of a data set without any, the file is empty."""
    return trec.qrels(path) if path.stat().st_size else Qrels({})


JUDGED = Artifact("judgements", _judged, keep=2)


def write(  # noqa: PLR0917  all of it is the data
    folder: Path,
    name: str,
    split: str,
    documents: Iterable[Document],
    queries: Iterable[Query],
    qrels: Qrels,
    *,
    fields: tuple[str, ...] = FIELDS,
    left_out: int = 0,
    elsewhere: Iterable[str] = (),
    own: OwnDocuments | None = None,
    complete: str = "",
    similar: Similar = NONE,
) -> DataManifest:
    """Write prepared data; the folder appears whole, and the same data gives the same bytes."""
    asked = tuple(queries)
    corpus, found = digest.DocumentsDigest(), OwnWatch(asked, own)
    with replacing_folder(folder) as beside:
        beir.write_documents(beside / CORPUS, corpus.watch(found.watch(documents)))
        cells.write(beside, Ids(found.own, frozenset(elsewhere)))
        beir.write_queries(beside / QUERIES, asked)
        trec.write_qrels(beside / QRELS, qrels)
        sha256 = DataSha256(digest.of_queries(asked), card.of_qrels(qrels))
        clusters.write(beside / CLUSTERS, asked, qrels, sha256, similar)
        manifest = DataManifest(
            name=name,
            split=split,
            documents=corpus.count,
            queries=len(asked),
            judgements=sum(1 for _ in qrels.rows()),
            corpus_sha256=corpus.sha256,
            **sha256._asdict(),
            slices=card.slices(asked),
            fields=fields,
            left_out=left_out,
            complete=complete,
        )
        DATA_MANIFEST.write(beside / MANIFEST, manifest)
    return manifest
