"""A small engine that keeps the contract, with places at which a test breaks it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from harness.core.engine import Answer, Hit, Manifest, Searcher
from harness.core.files import write_json
from harness.core.formats import json_file
from harness.core.records import Document
from harness_engines import contract

NAME, VERSION = "toy", "1"
FILE = "words.json"
Words = dict[str, list[str]]
Answers = Callable[["ToySearcher", str, int], Answer]


def words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


def keeps(searcher: ToySearcher, text: str, k: int) -> Answer:
    """Order documents by the share of the query's words that they hold, and by id."""
    wanted = set(words(text))
    counts = {doc_id: len(wanted & {*known}) for doc_id, known in searcher.known.items()}
    found = sorted((-count, doc_id) for doc_id, count in counts.items() if count)[:k]
    hits = tuple(Hit(doc_id, -count / len(wanted), -count) for count, doc_id in found)
    return Answer(hits, searcher.manifest.fingerprint)


@dataclass
class ToySearcher:
    """The open index; ``asked`` counts what it was asked."""

    manifest: Manifest
    known: Words
    answers: Answers
    asked: int = 0

    def search(self, text: str, k: int) -> Answer:
        self.asked += 1
        return self.answers(self, text, k)


@dataclass
class Toy:
    """An engine whose parts can be exchanged."""

    answers: Answers = keeps
    opened: Callable[[Path], None] = field(default=lambda _: None)
    """What happens to the folder of an index that is opened."""
    built: Callable[[Manifest], Manifest] = field(default=lambda made: made)
    """What ``build`` gives of the manifest that was written."""
    checks: bool = True
    """Whether ``open`` looks at the manifest."""
    takes: Callable[[list[Document]], list[Document]] = field(default=lambda given: given)
    """Which documents are written, and in what order."""

    def build(self, documents: Iterable[Document], index: Path) -> Manifest:
        def fill(passing: Iterable[Document]) -> None:
            kept = self.takes(list(passing))
            known = [(one.doc_id, words(f"{one.title} {one.text}")) for one in kept]
            write_json(index / FILE, {"known": known})

        made = contract.record(index, documents, fill, engine=NAME, version=VERSION, settings={})
        return self.built(made)

    @contextmanager
    def open(self, index: Path) -> Iterator[Searcher]:
        self.opened(index)
        if self.checks:
            made = contract.read(index)
            contract.check_made_by(index, made, engine=NAME, version=VERSION, settings={})
            known = dict(json_file(index / FILE)["known"])
            contract.check_count(index, made, len(known))
        else:
            made = Manifest(NAME, VERSION, 0, "", "")
            known = {}
        yield ToySearcher(made, known, self.answers)
