"""What holds for every chunk that is shown: words that must be there, phrases, and words refused.

The stages know no operators: BM25 takes any word, and the models any text. So chunks are narrowed
before the first stage, by their text itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from engines.lexical.terms import holds, spelled
from engines.lexical.typed import held
from engines.stacks.documents.words import unbroken

Mask = NDArray[np.bool_]


def gate(texts: Callable[[], Sequence[str]], query: str, allowed: Mask | None) -> Mask | None:
    """Narrow ``allowed``, shape (chunks,), by the constraints of a query.

    ``None`` allows all. A query without operators gives ``allowed`` back and reads no text.
    """
    must, never = held(query)
    if not must and not never:
        return allowed
    has, lacks = [holds(one) for one in must], [holds(one) for one in never]
    written = (spelled(unbroken(text)) for text in texts())
    found = np.array(
        [all(one(w) for one in has) and not any(one(w) for one in lacks) for w in written],
        dtype=np.bool_,
    )
    return found if allowed is None else found & allowed
