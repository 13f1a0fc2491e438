"""Stage ``prepare``: check a dataset against its card and write it in the one form."""

import runpy
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from pydantic import ValidationError

from harness.core.digest import DocumentsDigest, of_queries
from harness.core.errors import BadFile, DatasetError
from harness.core.files import held, replacing_folder
from harness.core.folders import FileChange, changing, completed
from harness.core.reading import numbered
from harness.core.records import FIELDS, Document, Qrels, Query
from harness.core.store import bad
from harness.corpus import beir, card, prepared, trec
from harness.corpus.card import DatasetCard
from harness.corpus.clusters import SIMILAR, SIMILAR_FILE, Similar, read_similar
from harness.corpus.trec import LEFT_OUT, either

MAKE = "make.py"
MODEL, MAX_TOKENS, BATCH = "all-MiniLM-L6-v2", 128, 64
"""Which model compares queries, how much of one it reads, and how many at once."""


def prepare(
    dataset: Path, qrels: Path, out: Path, *, update: bool = False, similar: bool = False
) -> None:
    """Write prepared data into ``out``."""
    if not update:
        completed(dataset, within=(dataset, qrels))
        with held(out):
            _prepare(dataset, qrels, out, similar=similar)
        return
    with changing(dataset, within=(dataset, qrels), what="prepare --update") as change, held(out):
        _prepare(dataset, qrels, out, change, similar=similar)


def _prepare(
    dataset: Path, qrels: Path, out: Path, change: FileChange | None = None, *, similar: bool
) -> None:
    about = card.read(dataset)
    judged = qrels / f"{about.split}.qrels"
    documents, queries, judgements = _read(dataset, about, judged)
    if similar:
        SIMILAR_FILE.write(dataset / SIMILAR, _similar(queries))
    corpus, left_out = DocumentsDigest(), dataset / LEFT_OUT
    with replacing_folder(out) as beside:
        prepared.write(
            beside,
            about.name,
            about.split,
            corpus.watch(documents),
            queries,
            judgements,
            fields=tuple(about.fields or FIELDS),
            left_out=about.left_out or 0,
            elsewhere=[line for _, line in numbered(left_out)] if left_out.is_file() else (),
            own=about.own_documents,
            complete=about.complete or "",
            similar=read_similar(dataset, of_queries(queries)),
        )
        counted = card.counted(about, corpus, queries, judgements)
        if change:
            change.write(judged, trec.qrels_text(judgements))
            here = counted.model_copy(update={"packages": card.installed(counted.packages)})
            change.write(dataset / card.FILE, card.text_of(here))
            change.commit()
            return
        card.check(about, counted, hint=_hint(about))
        if about.kind != "files" and card.of_qrels(trec.qrels(judged)) != about.sha256.qrels:
            raise DatasetError(f"{judged}: not the judgements of the card. {_hint(about)}")


def _similar(queries: Sequence[Query]) -> Similar:
    from harness_engines.vector.embedder import embedder_of

    embedder = embedder_of(MODEL, MAX_TOKENS)
    parts = [queries[at : at + BATCH] for at in range(0, len(queries), BATCH)]
    vectors = [embedder.embed([query.text for query in part]) for part in parts]
    ids = [query.query_id for query in queries]
    together = np.concatenate([np.zeros((0, embedder.dimension), np.float32), *vectors])
    return Similar.between(ids, together, embedder.identity, of_queries(queries))


def _read(
    dataset: Path, about: DatasetCard, judged: Path
) -> tuple[Iterable[Document], tuple[Query, ...], Qrels]:
    """Read the files of a data set, or run its own program."""
    if about.kind == "files":
        return (
            beir.documents(either(dataset, "corpus.jsonl")),
            tuple(beir.queries(either(dataset, "queries.jsonl"))),
            trec.qrels(judged),
        )
    program = dataset / MAKE
    if not program.is_file():
        raise BadFile(program, "missing file", "Bring it back, or import data (harness import).")
    try:
        made = runpy.run_path(str(program))["make"](about)
    except ValidationError as exc:
        raise bad(dataset / card.FILE, "not a card", exc, card.REMEDY) from exc
    return made.documents, made.queries, made.qrels


def _hint(about: DatasetCard) -> str:
    update = f"harness stage prepare --dataset {about.name} --update"
    if about.kind == "files":
        return f"Fetch the data again; if the change is meant, run: {update}"
    if not about.packages:
        return f"{MAKE} changed, or what it reads; if that is meant, run: {update}"
    here, there = card.installed(about.packages), about.packages
    names = sorted(here.keys() | there.keys())
    moved = [name for name in names if here.get(name) != there.get(name)]
    pairs = [
        f"{name} {here.get(name, 'none')} (card {there.get(name, 'none')})"
        for name in moved or names
    ]
    wanted = " ".join(f"{name}=={there[name]}" for name in moved or names if name in there)
    installed = f"Installed: {', '.join(pairs)}. Run: pip install {wanted}"
    return f"{installed}; if the change is meant, run: {update}"
