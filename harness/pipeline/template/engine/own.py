"""Our search: BM25 over the words of help pages. Change it, run ./ci.sh, and read out/index.html.

Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond", 2009. The harness
wants ``engine(settings, cache)``; what that gives back builds an index and opens it.
"""  # noqa: INP001  an arm names this file by its path; it belongs to no package

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import Field

from harness.core.digest import of_file
from harness.core.engine import Answer, Engine, Manifest, Searcher
from harness.core.files import write_json
from harness.core.formats import json_file
from harness.core.records import Document
from harness_engines import contract
from harness_engines.contract import StackSettings
from harness_engines.ranking import by_best

NAME = "own"
VERSION = of_file(Path(__file__))[:12]
"""Part of the fingerprint: another text of this file is another engine, with its own index."""
FILE = "counts.json"


class Settings(StackSettings):
    """The keys of ``[settings]`` in own.toml; an unknown or missing one is refused."""

    k1: float = Field(ge=0)
    b: float = Field(ge=0, le=1)


def words(text: str) -> list[str]:
    """Split a text into words; one and many of a thing are the same word."""
    return [word.removesuffix("s") for word in re.findall(r"\w+", text.lower())]


class Own(NamedTuple):
    """Builds and opens; holds nothing open itself."""

    settings: Settings

    def build(self, documents: Iterable[Document], index: Path) -> Manifest:
        """Count the words of every document."""

        def fill(passing: Iterable[Document]) -> None:
            counted = {one.doc_id: Counter(words(f"{one.title} {one.text}")) for one in passing}
            write_json(index / FILE, counted)

        settings = self.settings.model_dump()
        return contract.record(
            index, documents, fill, engine=NAME, version=VERSION, settings=settings
        )

    @contextmanager
    def open(self, index: Path) -> Iterator[Searcher]:
        """Read the counts, and refuse an index that another engine made."""
        made = contract.read(index)
        settings = self.settings.model_dump()
        contract.check_made_by(index, made, engine=NAME, version=VERSION, settings=settings)
        counts = json_file(index / FILE)
        contract.check_count(index, made, len(counts))
        average = sum(sum(of.values()) for of in counts.values()) / max(len(counts), 1)
        yield OwnSearcher(made, self.settings, counts, average)


class OwnSearcher(NamedTuple):
    """The open index."""

    manifest: Manifest
    settings: Settings
    counts: dict[str, dict[str, int]]
    """How often each word stands in a document, by the document's id."""
    average: float
    """Words of a document."""

    def search(self, text: str, k: int) -> Answer:
        """Show the ``k`` best; equal scores go by the document's id."""
        weights = {word: self._weight(word) for word in sorted(set(words(text)))}
        scored = ((doc_id, self._score(of, weights)) for doc_id, of in self.counts.items())
        found = ((doc_id, score) for doc_id, score in scored if score > 0)
        return Answer(by_best(found, k), self.manifest.fingerprint)

    def _weight(self, word: str) -> float:
        having = sum(word in of for of in self.counts.values())
        return math.log(1 + (len(self.counts) - having + 0.5) / (having + 0.5))

    def _score(self, of: Mapping[str, int], weights: Mapping[str, float]) -> float:
        k1, b = self.settings.k1, self.settings.b
        norm = k1 * (1 - b + b * sum(of.values()) / self.average)
        times = {word: of.get(word, 0) for word in weights}
        return sum(weights[w] * tf * (k1 + 1) / (tf + norm) for w, tf in times.items() if tf)


def engine(settings: Mapping[str, Any], cache: Path) -> Engine:  # noqa: ARG001  keeps nothing
    """Make the engine from the table ``[settings]`` of own.toml."""
    return Own(Settings.model_validate(settings))
