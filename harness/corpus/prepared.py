"""Prepared data: the one form in which every later stage reads a dataset."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

from pydantic import TypeAdapter, ValidationError

from harness.core import digest
from harness.core.errors import BadFile
from harness.core.files import replacing_folder, write_json
from harness.core.qrels import Qrels
from harness.core.records import FIELDS, Document, Query
from harness.corpus import card, jsonl, trec

CORPUS, QUERIES, QRELS, MANIFEST = "corpus.jsonl", "queries.jsonl", "qrels.trec", "manifest.json"
CURE = "Run: harness prepare."


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


@dataclass(frozen=True, slots=True)
class Prepared:
    """A folder of prepared data; documents are read when they are asked for."""

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
                raise BadFile(folder / name, "there is no such file", CURE)
        path = folder / MANIFEST
        try:
            read = TypeAdapter(DataManifest).validate_json(path.read_bytes(), strict=True)
        except ValidationError as exc:
            first = exc.errors()[0]
            key = ".".join(map(str, first["loc"])) or "the manifest"
            raise BadFile(path, f"{key}: {first['msg']}", CURE) from exc
        return cls(folder, read)

    def documents(self) -> Iterator[Document]:
        """Yield the corpus in its order."""
        return jsonl.documents(self.folder / CORPUS)

    def queries(self) -> tuple[Query, ...]:
        """Read the query set in its order."""
        return tuple(jsonl.queries(self.folder / QUERIES))

    def qrels(self) -> Qrels:
        """Read the judgements."""
        return trec.qrels(self.folder / QRELS)


def write(  # noqa: PLR0917  all of it is the data
    folder: Path,
    name: str,
    split: str,
    documents: Iterable[Document],
    queries: Iterable[Query],
    qrels: Qrels,
    *,
    fields: tuple[str, ...] = FIELDS,
) -> DataManifest:
    """Write prepared data; the folder appears whole, and the same data gives the same bytes.

    ``fields`` are the parts of a document that ``documents`` still have.
    """
    asked = tuple(queries)
    corpus = digest.DocumentsDigest()
    with replacing_folder(folder) as beside:
        jsonl.write_documents(beside / CORPUS, corpus.watch(documents))
        jsonl.write_queries(beside / QUERIES, asked)
        trec.write_qrels(beside / QRELS, qrels)
        manifest = DataManifest(
            name=name,
            split=split,
            documents=corpus.count,
            queries=len(asked),
            judgements=sum(1 for _ in qrels.rows()),
            corpus_sha256=corpus.sha256,
            queries_sha256=digest.of_queries(asked),
            qrels_sha256=card.of_qrels(qrels),
            slices=card.slices(asked),
            fields=fields,
        )
        write_json(beside / MANIFEST, asdict(manifest))
    return manifest
