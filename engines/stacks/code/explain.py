"""Why a hit stands where it stands (section "Explain schema"): the same keys from every backend."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

Part = Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class ScoreBreakdown:
    """``scoreBreakdown`` of one hit; a part that played no role is ``None``."""

    selected: Mapping[str, Any]
    """``type`` and ``score`` of what the hit is ordered by."""
    sparse: Part = None
    """``score`` of BM25, ``backend``, field ``weights``."""
    ann: Part = None
    """``score``, a cosine or an estimated Jaccard, and its ``source``: ``dense`` or ``minhash``."""
    rrf: Part = None
    blend: Part = None
    symbol: Part = None
    phrase: Part = None
    graph: Part = None
    """``score``, ``degree``, ``proximity``, ``weights``, ``seedSelection``, ``seedK``."""

    def as_dict(self) -> dict[str, Part]:
        """Give all keys, in their order, as they stand in JSON."""
        return {one.name: getattr(self, one.name) for one in fields(self)}


KEYS = tuple(one.name for one in fields(ScoreBreakdown))
