"""An engine of one's own in one file: BM25 over an inverted index, in plain Python.

Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond", 2009. A term's
weight is log(1 + (N - n + 0.5) / (n + 0.5)), which never falls below 0, and a title counts as if
it stood ``title_weight`` times in the text. Nothing here is quick: the index is one JSON file
that is read whole, and every document that shares a word with the query is scored.

The harness wants ``engine(settings, cache)``; the class that it gives back builds an index and
opens it, and what is open answers. docs/engines.md says what each of them promises.
"""  # noqa: INP001  an arm names this file by its path; it belongs to no package

import json
import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pydantic import Field

from harness.core.engine import Answer, Engine, Manifest, Searcher
from harness.core.errors import IndexNotReady
from harness.core.files import write_text
from harness.core.records import Document
from harness_engines import contract
from harness_engines.contract import StackSettings
from harness_engines.ranking import by_best

NAME = "own-bm25"
VERSION = "1"
"""Part of the fingerprint: raise it with every change that moves a ranking."""
FILE = "postings.json"
WHOLE = re.compile(r"\w+")
SPLIT = re.compile(r"[^\W_]+")


class Settings(StackSettings):
    """The keys of ``[settings]`` in own.toml; an unknown or missing one is refused."""

    k1: float = Field(ge=0)
    b: float = Field(ge=0, le=1)
    title_weight: int = Field(ge=0)
    joined: Literal["whole", "split"]
    """Whether ``read_csv`` is one word, or the two words ``read`` and ``csv``."""

    def words(self, text: str) -> list[str]:
        """Split into lower-cased runs of letters and digits (and, if whole, underscores)."""
        return (WHOLE if self.joined == "whole" else SPLIT).findall(text.lower())


class Own(NamedTuple):
    """Builds and opens; holds nothing open itself."""

    settings: Settings

    def build(self, documents: Iterable[Document], index: Path) -> Manifest:
        """Write the index; ``manifest.record`` counts and hashes the documents that pass by."""

        def fill(passing: Iterable[Document]) -> None:
            doc_ids: list[str] = []
            lengths: list[int] = []
            postings: dict[str, list[tuple[int, int]]] = {}
            for at, document in enumerate(passing):
                counts = Counter(self.settings.words(document.text))
                for word in self.settings.words(document.title):
                    counts[word] += self.settings.title_weight
                doc_ids.append(document.doc_id)
                lengths.append(counts.total())
                for word, count in counts.items():
                    postings.setdefault(word, []).append((at, count))
            whole = {"doc_ids": doc_ids, "lengths": lengths, "postings": postings}
            write_text(index / FILE, json.dumps(whole, ensure_ascii=False))

        settings = self.settings.model_dump()
        return contract.record(
            index, documents, fill, engine=NAME, version=VERSION, settings=settings
        )

    @contextmanager
    def open(self, index: Path) -> Iterator[Searcher]:
        """Read the index, and refuse one that is not what its manifest says."""
        made = contract.read(index)
        settings = self.settings.model_dump()
        contract.check_made_by(index, made, engine=NAME, version=VERSION, settings=settings)
        try:
            whole = json.loads((index / FILE).read_text(encoding="utf-8"))
        except (OSError, ValueError) as exc:
            raise IndexNotReady(f"{index / FILE}: {exc}. Index once more") from exc
        contract.check_count(index, made, len(whole["doc_ids"]))
        average = sum(whole["lengths"]) / max(len(whole["lengths"]), 1)
        yield OwnSearcher(made, self.settings, average=average, **whole)


class OwnSearcher(NamedTuple):
    """The open index."""

    manifest: Manifest
    settings: Settings
    average: float
    """Words of a document, on average."""
    doc_ids: list[str]
    lengths: list[int]
    postings: dict[str, list[tuple[int, int]]]

    def search(self, text: str, k: int) -> Answer:
        """Show the ``k`` best; equal scores are ordered by document id (``by_best``)."""
        k1, b = self.settings.k1, self.settings.b
        everything = len(self.doc_ids)
        scores: defaultdict[int, float] = defaultdict(float)
        for word, times in Counter(self.settings.words(text)).items():
            found = self.postings.get(word, [])
            weight = math.log(1 + (everything - len(found) + 0.5) / (len(found) + 0.5))
            for at, count in found:
                norm = k1 * (1 - b + b * self.lengths[at] / self.average)
                scores[at] += times * weight * count * (k1 + 1) / (count + norm)
        named = ((self.doc_ids[at], score) for at, score in scores.items())
        return Answer(by_best(named, k), self.manifest.fingerprint)


def engine(settings: Mapping[str, Any], cache: Path) -> Engine:  # noqa: ARG001  keeps nothing
    """Make the engine from the table ``[settings]`` of its arm."""
    return Own(Settings.model_validate(settings))
