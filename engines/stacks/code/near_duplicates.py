"""Near duplicates by MinHash: what was pasted, found where it stands almost word for word.

Broder, "On the resemblance and containment of documents", SEQUENCES 1997.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from engines.stacks.code.backends.contract import Scored
from engines.stacks.code.catalog import Rows
from harness.core.files import replacing

if TYPE_CHECKING:
    from datasketch import MinHash  # type: ignore[import-untyped]  # has no types

FILE = "minhash.npy"
PERMUTATIONS = 128
SHINGLE = 3
"""Terms in a row that are compared as one."""
SEED = 1
Signatures = NDArray[np.uint32]


def identity() -> str:
    """Say what made the signatures."""
    return f"datasketch {version('datasketch')} {PERMUTATIONS}/{SHINGLE}/{SEED}"


def shingles(terms: Sequence[str]) -> list[bytes]:
    """Give the runs of three terms; fewer terms have none."""
    runs = {" ".join(terms[at : at + SHINGLE]) for at in range(len(terms) - SHINGLE + 1)}
    return [run.encode() for run in sorted(runs)]


def signature(terms: Sequence[str]) -> Signatures | None:
    """Hash a text's shingles; shape (128,), None where it has none."""
    found = shingles(terms)
    if not found:
        return None
    made = _blank().copy()
    made.update_batch(found)
    return np.asarray(made.hashvalues, dtype=np.uint32)


@cache
def _blank() -> MinHash:
    """Make the permutations once; drawing them takes as long as using them."""
    from datasketch import MinHash

    return MinHash(PERMUTATIONS, seed=SEED)


def row(terms: Sequence[str]) -> Signatures:
    """Give a text's row of a table of signatures, shape (1 + 128,); 0 first where it has none."""
    made = signature(terms)
    whole = np.zeros(PERMUTATIONS + 1, dtype=np.uint32)
    if made is not None:
        whole[0], whole[1:] = 1, made
    return whole


def write(folder: Path, texts: Sequence[Sequence[str]]) -> None:
    """Write the signature of each text; of one without shingles, a row that is like no other."""
    whole = np.zeros((len(texts), PERMUTATIONS + 1), dtype=np.uint32)
    for at, terms in enumerate(texts):
        whole[at] = row(terms)
    with replacing(folder / FILE) as beside, beside.open("wb") as file:
        np.save(file, whole, allow_pickle=False)


def read(folder: Path) -> Signatures:
    """Map what ``write`` wrote; shape (texts, 1 + 128), the first column 0 without a text.

    Raises:
        OSError, ValueError: it is missing or broken.
    """
    found: Signatures = np.load(folder / FILE, mmap_mode="r", allow_pickle=False)
    if found.ndim != 2 or found.shape[1] != PERMUTATIONS + 1 or found.dtype != np.uint32:  # noqa: PLR2004  a table
        raise ValueError(f"{folder / FILE}: holds {found.dtype}{found.shape}, no signatures")
    return found


def nearest(
    signatures: Signatures, terms: Sequence[str], least: float, depth: int, allowed: Rows | None
) -> list[Scored]:
    """Give the ``allowed`` rows whose estimated Jaccard is at least ``least``, best first.

    The estimate is the share of permutations in which both have the same smallest hash.
    """
    asked = signature(terms)
    if asked is None or not len(signatures):
        return []
    rows = np.arange(len(signatures)) if allowed is None else allowed
    held = signatures if allowed is None else signatures[rows]
    alike = (held[:, 1:] == asked).mean(axis=1) * (held[:, 0] == 1)
    kept = np.flatnonzero(alike >= least)
    order = kept[np.lexsort((rows[kept], -alike[kept]))][:depth]
    return [Scored(int(rows[at]), float(alike[at])) for at in order]
