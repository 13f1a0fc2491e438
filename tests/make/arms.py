"""Arms made for tests: they answer from a table, fail on demand and keep a diary."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from harness.core.engine import Answer, Hit, Manifest
from harness.core.records import Query


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
