"""All checks on one engine, in their order; those of indexes and of HTTP."""

import shutil
import weakref
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import pairwise
from pathlib import Path
from typing import Any, Protocol, runtime_checkable
from unittest import SkipTest

from harness.check import answers
from harness.check.subject import (
    COMMON,
    DOCUMENTS,
    OBVIOUS,
    Check,
    CheckFinding,
    CheckOutcome,
    CheckSubject,
    Named,
    NotChecked,
    QueryOutcome,
    ask,
    examine,
    examine_all,
    promise_in,
    quoted,
    raised,
    shown,
    standing,
)
from harness.core.digest import of_documents, of_file
from harness.core.engine import Engine, Manifest
from harness.core.errors import DatasetError, HarnessError, IndexNotReady
from harness.core.files import scratch
from harness.core.formats import toml_file
from harness.core.printable import many
from harness.core.reading import Malformed, text_of
from harness.core.records import Document
from harness.corpus.prepared import Prepared
from harness_engines import registry
from harness_engines.contract import FILE

RECORD = "Build with harness_engines.contract.record, and give what manifest.read reads"
REFUSE = "Call harness_engines.contract.read and check_made_by in open, and check_count after it"
INDEX_CHECKS: list[Check] = []
promise = partial(promise_in, INDEX_CHECKS)
COUNT = '"documents": '
DAMAGE: dict[str, Callable[[str], str]] = {
    "other settings": lambda text: text.replace('"settings_sha256": "', '"settings_sha256": "0'),
    "another version": lambda text: text.replace('"version": "', '"version": "0.'),
    "another number of documents": lambda text: text.replace(COUNT, f"{COUNT}1"),
    "half a manifest": lambda _: "{",
    "a list as manifest": lambda _: "[]",
}
"""What may have happened to a manifest since the index was built."""


@promise("manifest", "The open index is the one that was built, and says so.", RECORD)
def _manifest(subject: CheckSubject) -> Iterator[str]:
    built, opened = subject.built, subject.searcher.manifest
    if opened != built:
        yield f"open gives {opened}, build gave {built}"
    if built.documents != len(subject.documents):
        yield f"it says {many(built.documents, 'document')}, {len(subject.documents)} were given"
    if built.corpus_sha256 != of_documents(subject.documents):
        yield "its corpus_sha256 is not the digest of the documents that were given"
    if not (subject.index / FILE).is_file():
        yield f"the index folder has no {FILE}"


@promise("no index", "A folder without an index is refused with IndexNotReady.", REFUSE)
def _no_index(subject: CheckSubject) -> Iterator[str]:
    with subject.scratch() as folder:
        yield from _refuses(subject.engine, folder, "an empty folder")


@promise(
    "damaged index",
    "An index that differs from its manifest is refused with IndexNotReady.",
    REFUSE,
)
def _damaged(subject: CheckSubject) -> Iterator[str]:
    with subject.scratch() as folder:
        copy = folder / "index"
        shutil.copytree(subject.index, copy)
        path = copy / FILE
        whole = text_of(path)
        for name, changed in DAMAGE.items():
            path.write_text(changed(whole), encoding="utf-8")
            yield from _refuses(subject.engine, copy, name)


def _refuses(engine: Engine, index: Path, what: str) -> Iterator[str]:
    """Yield nothing where opening raises ``IndexNotReady``."""
    try:
        with engine.open(index):
            pass
    except IndexNotReady:
        return
    except (KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as exc:  # noqa: BLE001  an exit is another error than the one owed
        yield f"{what}: {raised(exc)} instead of IndexNotReady"
        return
    yield f"{what}: opens"


@promise(
    "read only",
    "Opening and searching leave the index folder as it was.",
    "Open the files of the index read-only, and keep caches in the folder cache",
)
def _read_only(subject: CheckSubject) -> Iterator[str]:
    before = _files(subject.index)
    with subject.engine.open(subject.index) as searcher:
        for one in subject.asked[:3]:
            ask(searcher, one.text, one.k)
    after = _files(subject.index)
    for path in sorted(before.keys() | after.keys()):
        if before.get(path) != after.get(path):
            was = "added" if path not in before else "changed" if path in after else "removed"
            yield f"{path} was {was}"


def _files(index: Path) -> dict[str, tuple[int, str]]:
    """Return time and digest of each file, by its path in the folder."""
    return {
        path.relative_to(index).as_posix(): (
            path.stat().st_mtime_ns,
            of_file(path) if path.is_file() else "",
        )
        for path in index.rglob("*")
    }


@promise("fingerprint", "Other documents give another fingerprint.", RECORD, own_documents=True)
def _documents(subject: CheckSubject) -> Iterator[str]:
    """Yield nothing where another text of one document gives another fingerprint."""
    first, *rest = subject.documents
    other = _rebuilt(subject, [replace(first, text=f"{first.text} Another text."), *rest])[0]
    if other.fingerprint == subject.built.fingerprint:
        yield f"two corpora give the one fingerprint {other.fingerprint[:12]}"


@promise(
    "document order",
    "The order in which documents are built changes no answer.",
    "Order equal scores by document id, and not by their place in the index",
    own_documents=True,
)
def _in_any_order(subject: CheckSubject) -> Iterator[str]:
    _, answers = _rebuilt(subject, subject.documents[::-1])
    for was, now in zip(subject.asked, answers, strict=True):
        if now.error or shown(was.hits) != shown(now.hits):
            seen = now.error or f"{shown(now.hits)[:3]} instead of {shown(was.hits)[:3]}"
            yield f"{was}: {seen}, with the documents in reverse order"


@promise(
    "empty corpus",
    "An index of no documents can be built, and finds nothing.",
    "Divide by max(count, 1), and return Answer((), self.manifest.fingerprint)",
    own_documents=True,
)
def _nothing(subject: CheckSubject) -> Iterator[str]:
    made, answers = _rebuilt(subject, ())
    if made.documents:
        yield f"the manifest of an empty index says {many(made.documents, 'document')}"
    for one in answers:
        if one.error or one.hits:
            yield f"{one}: {one.error or many(len(one.hits), 'hit')} in an empty index"


def _rebuilt(
    subject: CheckSubject, documents: Sequence[Document]
) -> tuple[Manifest, tuple[QueryOutcome, ...]]:
    """Build an index of other documents, and ask it every text."""
    with subject.scratch() as index:
        made = subject.engine.build(iter(documents), index)
        with subject.engine.open(index) as searcher:
            return made, tuple(ask(searcher, one.text, one.k) for one in subject.asked)


FEW = 3
"""Hits asked for where a server has more."""
LEFT_OUT = {
    "scores", "order", "ties", "equal documents", "more than all", "empty text", "long text",
    "fingerprint", "document order", "empty corpus", "finds", "answers", "hostile text",
}  # fmt: skip
"""Promises that no one can keep who does not build the index, or that the server decides."""


@runtime_checkable
class Exchanges(Protocol):
    """A searcher that shows what it reads, before anything is made of it."""

    @property
    def known(self) -> frozenset[str] | None:
        """Ids of the data set; None where the arm's file takes any id."""
        ...

    def exchange(self, text: str, k: int) -> Any:  # noqa: ANN401  what the engine reads
        """Send one query, and return what was read of the answer."""
        ...


@runtime_checkable
class ServedElsewhere(Protocol):
    """An engine whose server holds its documents already."""

    def of_any_documents(self) -> Engine:
        """Return the same engine, which takes whatever ids the server has."""
        ...


CONTRACT_CHECKS: tuple[Check, ...] = (*answers.ANSWER_CHECKS, *INDEX_CHECKS)
KEPT = tuple(one for one in CONTRACT_CHECKS if one.name not in LEFT_OUT | {"ids", "k"})
OF_MAPPING = [
    Check(
        "answers",
        "Every query gets an answer that the file can read.",
        "Correct the key of the file that the message names",
        answers.errors,
    )
]
mapping = partial(promise_in, OF_MAPPING)


def _read(subject: CheckSubject) -> Iterator[tuple[QueryOutcome, Any]]:
    """Yield the queries that have an answer, with what is read of it."""
    if not isinstance(subject.searcher, Exchanges):
        raise NotChecked("needs an engine over HTTP")
    for one in subject.answered():
        yield one, subject.searcher.exchange(one.text, one.k)


@mapping(
    "finds",
    "Some query has a hit.",
    "Compare url, query and body with a request that finds something",
)
def _finds(subject: CheckSubject) -> Iterator[str]:
    if any(one.hits for one in subject.answered()):
        return
    none = f"none of {len(subject.asked)} queries"
    if not subject.documents:
        raise NotChecked(f"{none} of the harness has a hit: name the server's data with --dataset")
    yield f"{none} of the data set has a hit"


@mapping(
    "ids",
    "Each hit is a document of the data set.",
    "Let id name the member that holds the data set's id, such as _source.doc_id",
)
def _ids(subject: CheckSubject) -> Iterator[str]:
    if not subject.documents:
        raise NotChecked("needs the documents that the server holds: name them with --dataset")
    if isinstance(subject.searcher, Exchanges) and subject.searcher.known is None:
        shown = [hit.doc_id for one in subject.answered() for hit in one.hits]
        if shown and subject.known.isdisjoint(shown):
            yield f"no hit is a document of the data set, the first has the id {shown[0]!r}"
        return
    for one in subject.answered():
        if strange := [hit.doc_id for hit in one.hits if hit.doc_id not in subject.known]:
            yield f"{one}: {strange[0]!r} is the id of no document, {len(strange)} of them"


@mapping(
    "once",
    "Each document is shown once.",
    "Let the server collapse parts of a document into one hit",
)
def _twice(subject: CheckSubject) -> Iterator[str]:
    for one, read in _read(subject):
        for doc_id, times in Counter(hit.doc_id for hit in read.hits).items():
            if times > 1:
                yield f"{one}: {doc_id!r} is shown {times} times"


@mapping(
    "descending scores",
    "The scores do not ascend.",
    "Let score name what the server ranks by, and no distance; or leave score out",
)
def _descending(subject: CheckSubject) -> Iterator[str]:
    for one, read in _read(subject):
        for at, (before, after) in enumerate(pairwise(read.hits), start=2):
            if before.score is None or after.score is None:
                raise NotChecked("the file reads no score")
            if before.score < after.score:
                yield f"{one}: hit {at} scores {after.score:g}, the one above {before.score:g}"


@mapping(
    "order of ties",
    "Equal scores come in the same order each time.",
    "Let the server sort by score and then by id, so that two runs are the same",
)
def _tied(subject: CheckSubject) -> Iterator[str]:
    """Compare the order of equal scores in repeated answers."""
    for one, first in _read(subject):
        for _ in range(answers.TIMES - 1):
            again = subject.searcher.exchange(one.text, one.k)  # type: ignore[attr-defined]
            was, now = ([(h.score, h.doc_id) for h in read.hits] for read in (first, again))
            if was != now and sorted(was, key=str) == sorted(now, key=str):
                at = next(
                    i for i, pair in enumerate(zip(was, now, strict=True)) if len({*pair}) > 1
                )
                yield f"{one}: {now[at][1]!r} instead of {was[at][1]!r} at rank {at + 1}"
                break


@mapping(
    "k",
    "The number of hits is the one that was requested.",
    'Put "${k}" where the server reads the number of hits, such as size, limit or rows',
)
def _k(subject: CheckSubject) -> Iterator[str]:
    for one in subject.answered():
        if len(one.hits) > 1:
            few = ask(subject.searcher, one.text, 1)
            if few.error or [h.doc_id for h in few.hits] != [one.hits[0].doc_id]:
                yield f"{few}: {few.error or f'shows {[h.doc_id for h in few.hits]}'}"


@mapping(
    "total",
    "The total is at least the number of hits.",
    "Let total name the number of all matches, and not that of a page",
)
def _total(subject: CheckSubject) -> Iterator[str]:
    for one, read in _read(subject):
        if read.total is None:
            raise NotChecked("the file reads no total")
        if read.total < len(read.hits):
            yield f"{one}: total is {read.total}, and {many(len(read.hits), 'hit is')} shown"


@mapping(
    "hostile text",
    "No text is an error.",
    "Correct the key that a message names; where none does, let body or query send the text as"
    " a quoted value, and look into the server's log",
)
def _hostile(subject: CheckSubject) -> Iterator[str]:
    """Yield each text that fails; whose ids are shown is of no account here."""
    for name, text in answers.HOSTILE.items():
        if error := ask(subject.searcher, text, FEW).error:
            yield f"{name}: {quoted(text)}: {error}"


MAPPING_CHECKS = (*OF_MAPPING, *KEPT)
QUERIES = 50
"""Queries of a data set that are run, taken evenly from all."""


@dataclass(frozen=True, slots=True)
class CheckSample:
    """What an engine is checked on."""

    documents: Sequence[Document] = DOCUMENTS
    texts: Sequence[str] = (*OBVIOUS, *COMMON)
    own: bool = True
    """Whether these are the sample documents of the harness."""

    @classmethod
    def of(cls, data: Path) -> "CheckSample":
        """Take documents and queries from prepared data."""
        prepared = Prepared.open(data)
        documents = tuple(prepared.documents())
        if not documents:
            raise DatasetError(f"{data}: no document to check an engine on. Name another data set")
        texts = tuple(dict.fromkeys(query.text for query in prepared.queries()))
        return cls(documents, texts[:: -(-len(texts) // QUERIES) or 1], own=False)


@dataclass(frozen=True, slots=True)
class CheckResult:
    """What all checks of one engine saw."""

    arm: str
    manifest: Manifest
    findings: tuple[CheckFinding, ...]

    @property
    def holds(self) -> bool:
        """Whether no promise is broken."""
        return not any(found.broken for found in self.findings)

    def told(self) -> Mapping[str, Any]:
        """Return it as JSON."""
        return {
            "arm": self.arm,
            "holds": self.holds,
            "fingerprint": self.manifest.fingerprint,
            "documents": self.manifest.documents,
            "checks": [
                {
                    "name": found.check.name,
                    "promise": found.check.promise,
                    "outcome": str(found.outcome),
                    "violations": list(found.violations),
                    "count": found.count,
                    "reason": found.reason,
                    "hint": found.check.hint if found.broken else "",
                }
                for found in self.findings
            ],
        }


def check(name: str, cache: Path, sample: CheckSample | None = None) -> CheckResult:
    """Build an index of an arm, open it and run every check; all of it is removed after that."""
    given = sample or CheckSample()
    arm = registry.load(name, cache)
    checks = MAPPING_CHECKS if isinstance(arm.engine, ServedElsewhere) else CONTRACT_CHECKS
    with scratch() as beside, _stood(arm, Named(name, cache), beside, given) as subject:
        found = tuple(examine_all(checks, subject, own_documents=given.own))
        return CheckResult(arm.name, subject.built, found)


def _stood(
    engine: Engine, named: Named | None, beside: Path, given: CheckSample
) -> AbstractContextManager[CheckSubject]:
    """Build and open an engine; one whose server holds documents takes whatever it has."""
    inner = engine.engine if isinstance(engine, registry.Arm) else engine
    if given.own and isinstance(inner, ServedElsewhere):
        return standing(inner.of_any_documents(), beside, (), given.texts, None)
    return standing(engine, beside, given.documents, given.texts, named)


class Bench:
    """An engine whose index is built when the first check looks at it."""

    def __init__(self, engine: str | Path | Engine, sample: CheckSample) -> None:
        self._engine, self._sample = engine, sample

    @cached_property
    def subject(self) -> CheckSubject:
        """Build and open the index; it stays open until no check is left, or Python ends."""
        opened = ExitStack()
        weakref.finalize(self, opened.close)
        beside = opened.enter_context(scratch())
        given, arm = self._engine, None
        if isinstance(given, str | Path):
            arm = Named(str(given), beside / "cache")
            given = registry.load(*arm)
        return opened.enter_context(_stood(given, arm, beside, self._sample))


def is_served_elsewhere(engine: str | Path | Engine) -> bool:
    """Describe by the file alone, for no engine is made when tests are collected."""
    if not isinstance(engine, str | Path):
        return isinstance(engine, ServedElsewhere)
    try:
        return toml_file(registry.path_of(str(engine))).get("stack") == "http"
    except (HarnessError, OSError, Malformed):
        return False


@dataclass(frozen=True, slots=True)
class EngineCheck:
    """One check of an engine; call it to run the check."""

    check: Check
    bench: Bench
    skips: bool = False
    """Whether a check that has nothing to look at is skipped, as pytest and unittest do."""

    def __call__(self) -> None:
        """Check the promise.

        Raises:
            AssertionError: it is broken, or nothing could be checked; the message has the first
                violations and what to do.
            SkipTest: an engine over HTTP gives the check nothing to look at.
            HarnessError: the engine's file is wrong, or its index cannot be built or opened.
        """
        __tracebackhide__ = True
        finding = examine(self.check, self.bench.subject)
        if self.skips and finding.outcome is CheckOutcome.NOT_CHECKED:
            raise SkipTest(f"{self.check}: {finding.reason}")
        if finding.outcome is not CheckOutcome.HOLDS:
            raise AssertionError(str(finding))

    def __str__(self) -> str:
        return self.check.name


def engine_contract(
    engine: str | Path | Engine,
    *,
    documents: Sequence[Document] = DOCUMENTS,
    queries: Sequence[str] = (),
) -> tuple[EngineCheck, ...]:
    """Return the checks that every engine must pass.

    ``engine`` is the path of a TOML file, or an object with ``build`` and ``open``. The index is
    built at the first check, in a temporary folder, and all checks share it. With your own
    ``documents``, also give ``queries`` that match them; checks that need the sample documents are
    then left out. The check in another process needs a path, not an object.

    A file with ``stack = "http"`` gets the checks of ``harness arm check``: of its mapping, and of
    all that holds without building an index. The documents are those that the server has.

    As a test::

        @pytest.mark.parametrize("check", engine_contract("own.toml"), ids=str)
        def test_own_engine(check):
            check()
    """
    sample = CheckSample() if documents is DOCUMENTS else CheckSample(documents, queries, own=False)
    bench = Bench(engine, sample)
    known = isinstance(engine, str | Path)
    elsewhere = is_served_elsewhere(engine)
    return tuple(
        EngineCheck(check, bench, elsewhere)
        for check in (MAPPING_CHECKS if elsewhere else CONTRACT_CHECKS)
        if (sample.own or not check.own_documents) and (known or not check.by_name)
    )
