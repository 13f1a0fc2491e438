"""All checks on one engine, in their order; those of indexes and of HTTP."""

import shutil
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest import SkipTest

from harness.check.answers import CHECKS, promise
from harness.check.subject import (
    DOCUMENTS,
    Check,
    CheckFinding,
    CheckOutcome,
    CheckSample,
    CheckSubject,
    Named,
    NotChecked,
    QueryOutcome,
    ask,
    examine,
    of_any_documents,
    raised,
    shown,
    standing,
)
from harness.core.digest import of_documents, of_file
from harness.core.engine import Engine, Manifest
from harness.core.errors import HarnessError, IndexNotReady
from harness.core.files import scratch
from harness.core.printable import many
from harness.core.reading import text_of
from harness.core.records import Document
from harness_engines import registry
from harness_engines.contract import FILE

RECORD = "Build with harness_engines.contract.record, and give what manifest.read reads"
REFUSE = "Call harness_engines.contract.read and check_made_by in open, and check_count after it"
COUNT = '"documents": '
DAMAGE: dict[str, Callable[[str], str]] = {
    "other settings": lambda text: text.replace('"settings_sha256": "', '"settings_sha256": "0'),
    "another version": lambda text: text.replace('"version": "', '"version": "0.'),
    "another number of documents": lambda text: text.replace(COUNT, f"{COUNT}1"),
    "half a manifest": lambda _: "{",
    "a list as manifest": lambda _: "[]",
}
"""What may have happened to a manifest since the index was built."""


@promise(
    "manifest", "The open index is the one that was built, and says so.", RECORD, over_http=True
)
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


@promise(
    "no index", "A folder without an index is refused with IndexNotReady.", REFUSE, over_http=True
)
def _no_index(subject: CheckSubject) -> Iterator[str]:
    with subject.scratch() as folder:
        yield from _refuses(subject.engine, folder, "an empty folder")


@promise(
    "damaged index",
    "An index that differs from its manifest is refused with IndexNotReady.",
    REFUSE,
    over_http=True,
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
    over_http=True,
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


CONTRACT_CHECKS: tuple[Check, ...] = tuple(CHECKS)


def _of_the_data(subject: CheckSubject) -> Iterator[str]:
    if not subject.documents:
        raise NotChecked("needs the documents that the server holds: name them with --dataset")
    shown = [hit.doc_id for one in subject.answered() for hit in one.hits]
    if shown and subject.known.isdisjoint(shown):
        yield f"no hit is a document of the data set, the first has the id {shown[0]!r}"


def _descending(subject: CheckSubject) -> Iterator[str]:
    for one in subject.answered():
        for at, (before, after) in enumerate(pairwise(one.hits), start=2):
            if before.raw_score < after.raw_score:
                said = f"scores {after.raw_score:g}, the one above {before.raw_score:g}"
                yield f"{one}: hit {at} {said}"


MAPPING_CHECKS = (
    *(one for one in CONTRACT_CHECKS if one.over_http),
    Check(
        "documents",
        "Hits are documents of the data set.",
        "Let id name the member that holds the data set's id, such as _source.doc_id",
        _of_the_data,
    ),
    Check(
        "descending scores",
        "The scores do not ascend.",
        "Let score name what the server ranks by, and no distance; or leave score out",
        _descending,
    ),
)
"""Of an engine over HTTP: of its mapping, and of all that holds without building an index."""


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
    """Build an index of an arm, open it and run every check; all of it is removed after that.

    Where the first finds that no query is answered, there is nothing to learn from the others.
    """
    given = sample or CheckSample()
    arm = registry.load(name, cache)
    found: list[CheckFinding] = []
    with scratch() as beside, standing(arm, beside, given, Named(name, cache)) as subject:
        for one in MAPPING_CHECKS if subject.over_http else CONTRACT_CHECKS:
            reason = ""
            if found and found[0].broken and not any(asked.answer for asked in subject.asked):
                reason = "no query was answered"
            elif one.own_documents and not given.own:
                reason = "needs the sample documents: leave out --dataset"
            skipped = CheckFinding(one, CheckOutcome.NOT_CHECKED, reason=reason)
            found.append(skipped if reason else examine(one, subject))
        return CheckResult(arm.name, subject.built, tuple(found))


@dataclass(frozen=True, slots=True)
class EngineCheck:
    """One check of an engine; call it to run the check."""

    check: Check
    open: Callable[[], CheckSubject]
    """Returns the engine; its index is built when the first check looks at it."""

    def __call__(self) -> None:
        """Check the promise.

        Raises:
            AssertionError: it is broken, or nothing could be checked; the message has the first
                violations and what to do.
            SkipTest: an engine over HTTP gives the check nothing to look at.
            HarnessError: the engine's file is wrong, or its index cannot be built or opened.
        """
        __tracebackhide__ = True
        subject = self.open()
        finding = examine(self.check, subject)
        if subject.over_http and finding.outcome is CheckOutcome.NOT_CHECKED:
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
    known, opened = isinstance(engine, str | Path), ExitStack()

    @cache
    def subject() -> CheckSubject:
        """Build and open the index; it stays open until no check is left, or Python ends."""
        beside = opened.enter_context(scratch())
        if isinstance(engine, str | Path):
            arm = Named(str(engine), beside / "cache")
            return opened.enter_context(standing(registry.load(*arm), beside, sample, arm))
        return opened.enter_context(standing(engine, beside, sample))

    weakref.finalize(subject, opened.close)
    checks = CONTRACT_CHECKS if known or not of_any_documents(engine) else MAPPING_CHECKS
    with suppress(HarnessError, OSError):  # by the file alone: tests that are collected ask none
        if known and registry.read(registry.path_of(str(engine))).stack == "http":
            checks = MAPPING_CHECKS
    return tuple(
        EngineCheck(check, subject)
        for check in checks
        if (sample.own or not check.own_documents) and (known or not check.by_name)
    )
