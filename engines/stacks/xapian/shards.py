"""Shards: documents by id are dealt one by one, and each shard is built in a batch of its own.

Xapian numbers the documents of a joined database in turn over its shards. So the number of a
document is its place by id, whatever the number of shards, and equal scores come in byte order of
the ids. Statistics are those of all shards, so scores do not depend on their number either.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from engines.lexical.terms import LONGEST, spelled
from engines.stacks.xapian.debian import binding
from engines.stacks.xapian.settings import Settings
from harness.core.batches.batch import Batch
from harness.core.batches.mapping import map_batches
from harness.core.digest import of_json
from harness.core.files import replacing

FOLDER = "shards"
"""Below the cache: shards that wait for the others."""
GAP = 100
"""Positions between the title and the text, so that no phrase reaches from one to the other."""
Text = tuple[str, str]
"""Title and text."""


def names(count: int) -> list[str]:
    """Name the files of so many shards."""
    return [f"shard-{number:02}.glass" for number in range(count)]


def build(settings: Settings, rows: Sequence[Text], index: Path, cache: Path) -> None:
    """Write the shards of ``rows``, which are in order of their ids.

    A shard that was built before a command was killed is not built again.
    """
    count = settings.shards
    version = binding().version_string()
    batches = []
    for number in range(count):
        dealt = rows[number::count]
        own = of_json([version, settings.model_dump(), dealt])
        batches.append(Batch(dealt, cache / FOLDER / f"{own[:32]}-{number}.glass"))
    map_batches(Sharding(settings), batches, threads=min(count, os.cpu_count() or 1))
    for name, batch in zip(names(count), batches, strict=True):
        with replacing(index / name) as beside:
            shutil.move(batch.part, beside)


@dataclass(frozen=True, slots=True)
class Sharding:
    """Builds one shard as a single file."""

    settings: Settings

    def __call__(self, rows: Sequence[Text], beside: Path) -> Iterator[int]:
        xapian = binding()
        folder = beside.with_name("growing")
        shard = xapian.WritableDatabase(str(folder), xapian.DB_CREATE)
        try:
            term = partial(term_of, stem_of(self.settings))
            for title, text in rows:
                shard.add_document(self._document(xapian, term, title, text))
            shard.commit()
            shard.compact(str(beside), xapian.DBCOMPACT_SINGLE_FILE)
        finally:
            shard.close()
            shutil.rmtree(folder)
        yield 1

    def _document(self, xapian: Any, term: Any, title: str, text: str) -> Any:  # noqa: ANN401
        made, at = xapian.Document(), 0
        for part, weight in ((title, self.settings.title_weight), (text, 1)):
            if not weight:
                continue
            for word in spelled(part).split():
                at += 1
                made.add_posting(term(word), at, weight)
            at += GAP
        return made


def stem_of(settings: Settings) -> Any:  # noqa: ANN401  of a module without types
    """Give the stemmer."""
    return binding().Stem(settings.stemmer)


def term_of(stem: Any, word: str) -> bytes:  # noqa: ANN401
    """Write a word as it stands in the index."""
    return bytes(stem(word.lower()[:LONGEST].encode()))


def terms_of(stem: Any, words: Iterable[str]) -> list[bytes]:  # noqa: ANN401
    """Write the words of a query as they stand in the index."""
    return [term_of(stem, word) for word in words]
