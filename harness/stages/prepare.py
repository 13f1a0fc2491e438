"""Stage ``prepare``: check a dataset against its card and write it in the one form."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from harness.collections import package_texts, python_docs
from harness.collections.agent_mail import generate as agent_mail
from harness.core.digest import DocumentsDigest, of_queries
from harness.core.durable.journal import Change, changing, completed
from harness.core.durable.locks import held
from harness.core.errors import DatasetError
from harness.core.files import replacing_folder, write_json
from harness.core.qrels import Qrels
from harness.core.reading import numbered
from harness.core.records import FIELDS, Document, Query
from harness.corpus import card, jsonl, prepared, trec
from harness.corpus.card import Card
from harness.corpus.lines import LEFT_OUT, either
from harness.corpus.similar import SIMILAR, Similar
from harness.corpus.similar import read as read_similar

MODEL, MAX_TOKENS, BATCH = "all-MiniLM-L6-v2", 128, 64
"""Which model compares queries, how much of one it reads, and how many at once."""


def prepare(
    dataset: Path, qrels: Path, out: Path, *, update: bool = False, similar: bool = False
) -> None:
    """Write prepared data into ``out``.

    One after the other: who prepares last has read last. ``dataset`` is the folder with the card,
    ``qrels`` the folder with ``<split>.qrels``. With
    ``update`` the card's counts, digests and package versions are rewritten from what was
    found, and the judgements too where they are made here, instead of being checked. With
    ``similar`` a model compares the queries, and its pairs are kept beside the card.

    Raises:
        BadFile: a file is missing or malformed.
        DatasetError: the data is not what the card says; ``out`` is left as it was.
    """
    if not update:
        completed(dataset, within=(dataset, qrels))
        with held(out):
            _prepare(dataset, qrels, out, similar=similar)
        return
    with changing(dataset, within=(dataset, qrels), what="prepare --update") as change, held(out):
        _prepare(dataset, qrels, out, change, similar=similar)


def _prepare(
    dataset: Path, qrels: Path, out: Path, change: Change | None = None, *, similar: bool
) -> None:
    about = card.read(dataset)
    judged = qrels / f"{about.split}.qrels"
    found = _made(about) or _from_files(dataset, judged)
    if similar:
        write_json(dataset / SIMILAR, _similar(found.queries).as_json())
    corpus = DocumentsDigest()
    with replacing_folder(out) as beside:
        documents = corpus.watch(found.documents)
        prepared.write(
            beside,
            about.name,
            about.split,
            documents,
            found.queries,
            found.qrels,
            fields=tuple(about.fields or FIELDS),
            left_out=about.left_out or 0,
            elsewhere=_elsewhere(dataset / LEFT_OUT),
            own=about.own_documents,
            complete=about.complete or "",
            similar=read_similar(dataset, of_queries(found.queries)),
        )
        counted = card.counted(about, corpus, found.queries, found.qrels)
        if change:
            change.write(judged, trec.qrels_text(found.qrels))
            change.write(dataset / card.FILE, card.text_of(_with_versions(counted)))
            change.commit()
            return
        card.check(about, counted, hint=_hint(about))
        if found.made and card.of_qrels(trec.qrels(judged)) != about.sha256.qrels:
            raise DatasetError(f"{judged}: not the judgements of the card. {_hint(about)}")


def _elsewhere(file: Path) -> tuple[str, ...]:
    """Read the ids of queries that an import left out."""
    return tuple(line for _, line in numbered(file)) if file.is_file() else ()


def _similar(queries: Sequence[Query]) -> Similar:
    from engines.vector.chosen import embedder_of

    embedder = embedder_of(MODEL, MAX_TOKENS)
    parts = [queries[at : at + BATCH] for at in range(0, len(queries), BATCH)]
    vectors = [embedder.embed([query.text for query in part]) for part in parts]
    ids = [query.query_id for query in queries]
    together = np.concatenate([np.zeros((0, embedder.dimension), np.float32), *vectors])
    return Similar.between(ids, together, embedder.identity, of_queries(queries))


@dataclass(frozen=True, slots=True)
class _Found:
    documents: Iterable[Document]
    queries: tuple[Query, ...]
    qrels: Qrels
    made: bool
    """Here, from the settings of the card, and not read from files."""


def _made(about: Card) -> _Found | None:
    if about.harvest:
        read = python_docs.read(about.harvest)
        return _Found(read.documents, read.queries, read.qrels, made=True)
    if about.traffic:
        drawn = agent_mail.generate(about.traffic)
        return _Found(drawn.documents, drawn.queries, drawn.qrels, made=True)
    if about.texts:
        carried = package_texts.read(about.texts)
        return _Found(carried.documents, carried.queries, carried.qrels, made=True)
    return None


def _from_files(dataset: Path, judged: Path) -> _Found:
    return _Found(
        jsonl.documents(either(dataset, "corpus.jsonl")),
        tuple(jsonl.queries(either(dataset, "queries.jsonl"))),
        trec.qrels(judged),
        made=False,
    )


def _with_versions(counted: Card) -> Card:
    here = _versions(counted)
    if counted.harvest:
        harvest = counted.harvest.model_copy(update={"packages": here})
        return counted.model_copy(update={"harvest": harvest})
    if counted.texts:
        texts = counted.texts.model_copy(update={"packages": here})
        return counted.model_copy(update={"texts": texts})
    return counted


def _versions(about: Card) -> dict[str, str]:
    """Versions of the installed packages that a set is read from; none where it is not."""
    if about.harvest:
        return python_docs.versions(about.harvest)
    return package_texts.versions(about.texts) if about.texts else {}


def _hint(about: Card) -> str:
    update = f"harness prepare --dataset {about.name} --update"
    if about.traffic:
        return f"The generator changed, or its words; if that is meant, run: {update}"
    from_packages = about.harvest or about.texts
    if from_packages is None:
        return f"Fetch the data again; if the change is meant, run: {update}"
    here, there = _versions(about), from_packages.packages
    names = sorted(here.keys() | there.keys())
    moved = [name for name in names if here.get(name) != there.get(name)]
    pairs = [
        f"{name} {here.get(name, 'none')} (card {there.get(name, 'none')})"
        for name in moved or names
    ]
    wanted = " ".join(f"{name}=={there[name]}" for name in moved or names if name in there)
    installed = f"Installed: {', '.join(pairs)}. Run: pip install {wanted}"
    return f"{installed}; if the change is meant, run: {update}"
