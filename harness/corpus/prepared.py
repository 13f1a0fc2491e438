"""Prepared data: the one form in which every later stage reads a dataset."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

from pydantic import TypeAdapter, ValidationError

from harness.core import digest
from harness.core.clusters import BY_TEXT, Clustering
from harness.core.errors import BadFile
from harness.core.files import replacing_folder, write_json
from harness.core.formats import checked
from harness.core.qrels import Qrels
from harness.core.reading import Malformed, text_of
from harness.core.records import FIELDS, Document, Query
from harness.corpus import card, clusters, jsonl, trec
from harness.corpus.cells import identity
from harness.corpus.cells.identity import Ids, OwnDocuments, OwnWatch
from harness.corpus.clusters import CLUSTERS, DataSha256, Groups, QueryClusters
from harness.corpus.once import parsed_once
from harness.corpus.similar import NONE, Similar

CORPUS, QUERIES, QRELS, MANIFEST = "corpus.jsonl", "queries.jsonl", "qrels.trec", "manifest.json"
HINT = "Run: harness prepare."


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
    """Queries of each slice."""
    fields: tuple[str, ...] = FIELDS
    """Parts of a document that were kept to be searched."""
    left_out: int = 0
    """Unjudged queries that were given and not taken."""
    complete: str = ""
    """Why every relevant document is judged, as the card says; empty where one may not be."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A folder of prepared data; documents are read when they are needed."""

    folder: Path
    manifest: DataManifest

    @classmethod
    def open(cls, folder: Path) -> Self:
        """Open what ``write`` left.

        Raises:
            BadFile: a file is missing, or the manifest is malformed.
        """
        for name in (MANIFEST, CORPUS, QUERIES, QRELS):
            if not (folder / name).is_file():
                raise BadFile(folder / name, "missing file", HINT)
        path = folder / MANIFEST
        try:
            text = checked(text_of(path))
            read = TypeAdapter(DataManifest).validate_json(text, strict=True)
        except Malformed as exc:
            raise BadFile(path, f"it is not JSON ({exc})", HINT) from exc
        except ValidationError as exc:
            first = exc.errors()[0]
            key = ".".join(map(str, first["loc"])) or "the manifest"
            raise BadFile(path, f"{key}: {first['msg']}", HINT) from exc
        return cls(folder, read)

    def documents(self) -> Iterator[Document]:
        """Yield the corpus in its order."""
        return jsonl.documents(self.folder / CORPUS)

    def queries(self) -> tuple[Query, ...]:
        """Read the query set in its order."""
        return _asked(self.folder / QUERIES)

    def clusters(self, how: Clustering = BY_TEXT) -> Mapping[str, str]:
        """Name the cluster of each query that depends on another one, by its id.

        Raises:
            BadFile: the clusters are missing, or of other queries.
        """
        return clusters.of_queries(self.queries(), self.near_duplicates(), how)

    def near_duplicates(self) -> Groups:
        """Read which queries have nearly the same words, as they were found once.

        Raises:
            BadFile: as ``clusters``.
        """
        return self.found().near_duplicates

    def found(self) -> QueryClusters:
        """Read what was found of the queries, by their words, judgements and vectors.

        Raises:
            BadFile: as ``clusters``.
        """
        about = self.manifest
        sha256 = DataSha256(about.queries_sha256, about.qrels_sha256)
        return clusters.read(self.folder / CLUSTERS, sha256)

    def parted(self, how: Clustering = BY_TEXT) -> frozenset[str]:
        """Name the near duplicates by words that intents part; none where intents do not count.

        Raises:
            BadFile: as ``clusters``.
        """
        return frozenset(self.found().parted if how != "none" else ())

    def unlike_words(self) -> str:
        """Return what finds queries of one need in unlike words: a model, intents, or nothing.

        Raises:
            BadFile: as ``clusters``.
        """
        if (model := self.found().similar.model) != NONE.model:
            return model
        return "intents" if all(query.intent is not None for query in self.queries()) else ""

    def ids(self) -> Ids:
        """Read which queries are documents, and which others were given.

        Raises:
            BadFile: the file is damaged.
        """
        return identity.read(self.folder)

    def qrels(self) -> Qrels:
        """Read the judgements."""
        return _judged(self.folder / QRELS)


@parsed_once(keep=2)
def _asked(path: Path) -> tuple[Query, ...]:
    return tuple(jsonl.queries(path))


@parsed_once(keep=2)
def _judged(path: Path) -> Qrels:
    return trec.qrels(path)


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
    """Write prepared data; the folder appears whole, and the same data gives the same bytes.

    ``fields`` are the parts of a document that ``documents`` still have; ``left_out`` counts the
    queries that were given and are not among ``queries``. ``elsewhere`` has their ids, as far as
    known. ``own`` says what is made of queries that are themselves documents. ``complete``
    says why no judgement of a relevant document is missing. ``similar`` are pairs of a model.
    """
    asked = tuple(queries)
    corpus, found = digest.DocumentsDigest(), OwnWatch(asked, own)
    with replacing_folder(folder) as beside:
        jsonl.write_documents(beside / CORPUS, corpus.watch(found.watch(documents)))
        identity.write(beside, Ids(found.own, frozenset(elsewhere)))
        jsonl.write_queries(beside / QUERIES, asked)
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
        write_json(beside / MANIFEST, asdict(manifest))
    return manifest
