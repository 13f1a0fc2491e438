"""What a chunk names, by a rule that anybody can check, and which chunks name it.

An entity is a name of two or more capitalised words, a word in capitals with digits or without,
or an identifier. That is a word joined by underscores, or with a capital within. No model is
queried, and a name of one plain word is not told from the start of a sentence; so it is left out.
"""

from __future__ import annotations

import json
import math
import re
from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.core.errors import IndexNotReady
from harness.core.files import write_text
from harness.core.formats import MAX_INDEX_BYTES, json_file

FILE = "entities.json"
MOST_CHUNKS = 64
"""An entity of more chunks says what the collection is about, and nothing of a chunk."""
MOST_OF_A_CHUNK = 16
"""Of the entities of a chunk the rarest count."""
LONGEST = 80
_ENTITY = re.compile(
    r"\b(?:"
    r"[A-Z][a-z]+(?:[ ](?:of[ ])?[A-Z][a-z]+){1,4}"
    r"|[A-Z][A-Z0-9]+(?:-[A-Z0-9]+)*"
    r"|[A-Za-z][A-Za-z0-9]*(?:_[A-Za-z0-9]+)+"
    r"|[a-z]+[A-Z][A-Za-z0-9]*"
    r"|[A-Z][a-z]+[A-Z][A-Za-z0-9]*"
    r")\b"
)


def named(text: str) -> frozenset[str]:
    """Entities of a text, lower-cased."""
    found = (match[0].lower() for match in _ENTITY.finditer(text))
    return frozenset(entity for entity in found if len(entity) <= LONGEST)


@dataclass(frozen=True, slots=True)
class Entities:
    """Which chunks name an entity; only entities that connect 2 to ``MOST_CHUNKS`` chunks."""

    chunks: dict[str, tuple[int, ...]]
    """Positions, ascending, of the chunks of each entity."""
    of_chunk: dict[int, tuple[str, ...]]
    """The entities of a chunk, the rarest first, at most ``MOST_OF_A_CHUNK``."""
    total: int
    """Chunks of the collection."""

    @classmethod
    def of(cls, texts: Sequence[str]) -> Entities:
        """Read all chunks of a collection, in their order."""
        return cls.joined([named(text) for text in texts])

    @classmethod
    def joined(cls, of_chunks: Sequence[Collection[str]]) -> Entities:
        """Put together what each chunk names."""
        found: dict[str, list[int]] = defaultdict(list)
        for number, entities in enumerate(of_chunks):
            for entity in entities:
                found[entity].append(number)
        return cls._joined(found, len(of_chunks))

    @classmethod
    def _joined(cls, found: dict[str, list[int]], total: int) -> Entities:
        connecting = {e: tuple(at) for e, at in found.items() if 1 < len(at) <= MOST_CHUNKS}
        of_chunk: dict[int, list[str]] = defaultdict(list)
        for entity in sorted(connecting, key=lambda e: (len(connecting[e]), e)):
            for number in connecting[entity]:
                if len(of_chunk[number]) < MOST_OF_A_CHUNK:
                    of_chunk[number].append(entity)
        return cls(connecting, {n: tuple(some) for n, some in of_chunk.items()}, total)

    def weight(self, entity: str) -> float:
        """How much an entity says: ln(chunks / chunks that name it), and 0 where all do."""
        return math.log(self.total / len(self.chunks[entity]))

    def write(self, folder: Path) -> None:
        """Write which chunks name what."""
        text = json.dumps({"total": self.total, "chunks": self.chunks}, sort_keys=True)
        write_text(folder / FILE, text)

    @classmethod
    def open(cls, folder: Path, total: int) -> Entities:
        """Read what ``write`` wrote for ``total`` chunks.

        Raises:
            IndexNotReady: it is missing or broken, or speaks of other chunks.
        """
        path = folder / FILE
        try:
            read = json_file(path, most=MAX_INDEX_BYTES)
            fits = read["total"] == total
            fits = fits and all(0 <= max(at) < total for at in read["chunks"].values())
            found = cls._joined(read["chunks"], total)
        except (OSError, ValueError, KeyError, TypeError) as exc:
            raise IndexNotReady(f"{path}: {exc}. Build it again: harness index") from exc
        if not fits:
            raise IndexNotReady(
                f"{path}: speaks of other chunks than the {total} there are."
                " Build it again: harness index"
            )
        return found
