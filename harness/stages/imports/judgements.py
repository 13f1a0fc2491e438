"""Judgements of an import: BEIR's three columns, TREC's four, or a pool as far as it is judged."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from harness.core.qrels import Qrels
from harness.corpus import beir, pool, trec
from harness.stages.imports.report import About


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
    odd = f"{len(found.open)} pairs of the pool are not judged."
    return judged, replace(about, warnings=(*about.warnings, odd)) if found.open else about
