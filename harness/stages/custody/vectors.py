"""Vectors beside the record: processors differ below half precision, and these do not."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from engines import registry as arms
from harness.core.engine import Agreement, KeepsVectors
from harness.corpus.prepared import Prepared
from harness.stages.layout import Layout

VECTORS = Path("reports") / "vectors"
"""Tracked, below the project: a file a model."""


def keep_vectors(root: Path, layout: Layout, names: Iterable[str], cache: Path) -> None:
    """Write the vectors of a data set's documents and queries, for arms that have some."""
    data = Prepared.open(layout.data)
    queries = [query.text for query in data.queries()]
    for name in names:
        engine = arms.load(name, cache).engine
        if isinstance(engine, KeepsVectors):
            engine.keep_vectors(data.documents(), queries, root / VECTORS)


def take_vectors(root: Path, layout: Layout, name: str, cache: Path) -> Agreement | None:
    """Let an arm use the vectors of the record, if fresh ones of a sample agree.

    None where the record has nothing for this arm.
    """
    folder = root / VECTORS
    engine = arms.load(name, cache).engine
    if not folder.is_dir() or not isinstance(engine, KeepsVectors):
        return None
    data = Prepared.open(layout.data)
    queries = [query.text for query in data.queries()]
    return engine.take_vectors(data.documents(), queries, folder)
