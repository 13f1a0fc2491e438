"""Write a data set in the format of another tool."""

from __future__ import annotations

from pathlib import Path

from harness.corpus.exchange.formats import Data, writer
from harness.corpus.prepared import Prepared


def convert(data: Prepared, name: str, kind: str, to: Path) -> tuple[Path, ...]:
    """Write prepared data into the folder ``to``; give the files.

    Raises:
        UnknownName: the format is unknown.
        DatasetError: the format cannot carry the data.
    """
    write = writer(kind)
    write(to, Data(name, data.documents, tuple(data.queries()), data.qrels()))
    return tuple(sorted(path for path in to.rglob("*") if path.is_file()))
