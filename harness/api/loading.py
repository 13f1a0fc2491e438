"""Runs and judgements from files, by the ending of their names."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from harness.core.names import checked
from harness.core.qrels import Qrels
from harness.core.run import Run
from harness.corpus import beir, runs, trec

PARQUET, TABBED = ".parquet", ".tsv"


def load_run(path: str | Path, arm: str = "", *, empty: Iterable[str] = ()) -> Run:
    """Read a run: a name that ends in ``.parquet`` is ours, every other file holds TREC lines.

    ``arm`` names the run; without it, it has the name that is in our file, or that of the TREC
    file. TREC lines are read as ``harness.corpus.trec.read_run`` says, and a query that has none
    is not in the run, but for those of ``empty``: they were answered with nothing.

    Raises:
        BadFile: the file is missing, damaged or malformed.
        BadName: no arm can be called so; give another name with ``arm``.
    """
    file = Path(path)
    if file.suffix == PARQUET:
        found = runs.read_run(file)
        return replace(found, arm=checked("an arm", arm or found.arm))
    name = checked("an arm", arm or file.stem)
    return trec.read_run(file, name, empty, missing=trec.Missing.EMPTY)


def load_qrels(path: str | Path) -> Qrels:
    """Read judgements: ``.tsv`` is BEIR's ``query document grade`` with tabs, else TREC's lines.

    Raises:
        BadFile: the file is missing or malformed, or judges a pair twice.
    """
    file = Path(path)
    return beir.qrels(file) if file.suffix == TABBED else trec.qrels(file)
