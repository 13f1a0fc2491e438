"""What holds for every chunk that is shown: words that must be there, phrases, and words refused.

The stages know no operators: BM25 takes any word, and the models any text. So chunks are narrowed
before the first stage, by their text itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from engines.lexical.typed import Clause, held

Mask = NDArray[np.bool_]


def gate(texts: Callable[[], Sequence[str]], query: str, allowed: Mask | None) -> Mask | None:
    """Narrow ``allowed``, shape (chunks,), by the constraints of a query.

    ``None`` allows all. A query without operators gives ``allowed`` back and reads no text.
    """
    must, never = held(query)
    if not must and not never:
        return allowed
    has, lacks = [_finder(one) for one in must], [_finder(one) for one in never]
    found = np.array(
        [all(one(text) for one in has) and not any(one(text) for one in lacks) for text in texts()],
        dtype=np.bool_,
    )
    return found if allowed is None else found & allowed


def _finder(clause: Clause) -> Callable[[str], bool]:
    """Look for the words of a clause, next to each other and whole, in any case."""
    joined = r"[\W_]+".join(map(re.escape, clause.words))
    pattern = re.compile(rf"(?<![^\W_]){joined}(?![^\W_])", re.IGNORECASE)
    return lambda text: pattern.search(text) is not None
