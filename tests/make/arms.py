"""Arms made for tests: one of a table, a small engine with a build; and a clock moved by hand."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from harness.core.engine import Answer, Hit, Manifest, Searcher
from harness.core.files import write_json
from harness.core.formats import json_file
from harness.core.records import Document, Query
from harness_engines import contract


def queries(count: int) -> list[Query]:
    return [Query(f"q{at:02}", f"question {at:02}") for at in range(count)]


def hits(*doc_ids: str) -> tuple[Hit, ...]:
    return tuple(Hit(doc_id, 1 / at, 9 / at) for at, doc_id in enumerate(doc_ids, start=1))


@dataclass
class Table:
    """Answers each text from a table, else with one document that is named after it."""

    name: str = "table"
    answers: Mapping[str, Callable[[], object]] = field(default_factory=dict)
    diary: list[tuple[str, str, int]] = field(default_factory=list)
    """Arm, text and k of every question, in order; arms may share one."""

    @property
    def manifest(self) -> Manifest:
        return Manifest(self.name, "1", 3, "c0ffee", "5e77")

    def shows(self, *doc_ids: str) -> Answer:
        """Make an answer of its own."""
        return Answer(hits(*doc_ids), self.manifest.fingerprint)

    def search(self, text: str, k: int) -> Answer:
        self.diary.append((self.name, text, k))
        if text in self.answers:
            return self.answers[text]()  # type: ignore[return-value]  # also what is no answer
        return self.shows(f"about {text}")

    def asked(self) -> Sequence[str]:
        """Every text that this arm was asked, in order."""
        return [text for name, text, _ in self.diary if name == self.name]


def raising(error: BaseException) -> Callable[[], object]:
    def answer() -> object:
        raise error

    return answer


NAME, VERSION = "toy", "1"
FILE = "words.json"
Words = dict[str, list[str]]
Answers = Callable[["ToySearcher", str, int], Answer]


def words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


def keeps(searcher: "ToySearcher", text: str, k: int) -> Answer:
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


@dataclass
class Hand:
    """A clock that moves only when someone waits or is served."""

    at_ns: int = 0
    late_ns: int = 0
    """How much every wait oversleeps."""
    cpu_ns: int = 7

    def now_ns(self) -> int:
        return self.at_ns

    def wait_until(self, at_ns: int) -> int:
        self.at_ns = max(self.at_ns, at_ns) + self.late_ns
        return self.cpu_ns
