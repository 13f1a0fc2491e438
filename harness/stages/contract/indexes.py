"""What building and opening owe: a manifest that is true, and no answer from a wrong index."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from engines.contract.manifest import FILE
from harness.core.digest import of_documents, of_file
from harness.core.engine import Engine, Manifest
from harness.core.errors import IndexNotReady
from harness.core.printable import many
from harness.core.reading import text_of
from harness.core.records import Document
from harness.stages.contract.check import Check
from harness.stages.contract.subject import QueryOutcome, Subject, ask, raised, shown

COUNT = '"documents": '
DAMAGE: dict[str, Callable[[str], str]] = {
    "other settings": lambda text: text.replace('"settings_sha256": "', '"settings_sha256": "0'),
    "another version": lambda text: text.replace('"version": "', '"version": "0.'),
    "another number of documents": lambda text: text.replace(COUNT, f"{COUNT}1"),
    "half a manifest": lambda _: "{",
    "a list as manifest": lambda _: "[]",
}
"""What may have happened to a manifest since the index was built."""


def _manifest(subject: Subject) -> Iterator[str]:
    built, opened = subject.built, subject.searcher.manifest
    if opened != built:
        yield f"open gives {opened}, build gave {built}"
    if built.documents != len(subject.documents):
        yield f"it says {many(built.documents, 'document')}, {len(subject.documents)} were given"
    if built.corpus_sha256 != of_documents(subject.documents):
        yield "its corpus_sha256 is not the digest of the documents that were given"
    if not (subject.index / FILE).is_file():
        yield f"the index folder has no {FILE}"


def _documents(subject: Subject) -> Iterator[str]:
    """Yield nothing where another text of one document gives another fingerprint."""
    first, *rest = subject.documents
    other = _rebuilt(subject, [replace(first, text=f"{first.text} Another text."), *rest])[0]
    if other.fingerprint == subject.built.fingerprint:
        yield f"two corpora give the one fingerprint {other.fingerprint[:12]}"


def _in_any_order(subject: Subject) -> Iterator[str]:
    _, answers = _rebuilt(subject, subject.documents[::-1])
    for was, now in zip(subject.asked, answers, strict=True):
        if now.error or shown(was.hits) != shown(now.hits):
            seen = now.error or f"{shown(now.hits)[:3]} instead of {shown(was.hits)[:3]}"
            yield f"{was}: {seen}, with the documents in reverse order"


def _nothing(subject: Subject) -> Iterator[str]:
    made, answers = _rebuilt(subject, ())
    if made.documents:
        yield f"the manifest of an empty index says {many(made.documents, 'document')}"
    for one in answers:
        if one.error or one.hits:
            yield f"{one}: {one.error or many(len(one.hits), 'hit')} in an empty index"


def _rebuilt(
    subject: Subject, documents: Sequence[Document]
) -> tuple[Manifest, tuple[QueryOutcome, ...]]:
    """Build an index of other documents, and ask it every text."""
    with subject.scratch() as index:
        made = subject.engine.build(iter(documents), index)
        with subject.engine.open(index) as searcher:
            return made, tuple(ask(searcher, one.text, one.k) for one in subject.asked)


def _no_index(subject: Subject) -> Iterator[str]:
    with subject.scratch() as folder:
        yield from _refuses(subject.engine, folder, "an empty folder")


def _damaged(subject: Subject) -> Iterator[str]:
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


def _read_only(subject: Subject) -> Iterator[str]:
    before = _files(subject.index)
    with subject.engine.open(subject.index) as searcher:
        for one in subject.asked[:3]:
            ask(searcher, one.text, one.k)
    after = _files(subject.index)
    for path in sorted(before.keys() | after.keys()):
        if before.get(path) != after.get(path):
            yield f"{path} was {_change(path in before, path in after)}"


def _files(index: Path) -> dict[str, tuple[int, str]]:
    """Give time and digest of each file, by its path in the folder."""
    return {
        path.relative_to(index).as_posix(): (
            path.stat().st_mtime_ns,
            of_file(path) if path.is_file() else "",
        )
        for path in index.rglob("*")
    }


def _change(before: bool, after: bool) -> str:  # noqa: FBT001  two states of one file
    return "changed" if before and after else "removed" if before else "added"


RECORD = "Build with engines.contract.manifest.record, and give what manifest.read reads"
REFUSE = "Call engines.contract.manifest.read and check_made_by in open, and check_count after it"
CHECKS = (
    Check("manifest", "The open index is the one that was built, and says so.", RECORD, _manifest),
    Check(
        "no index",
        "A folder without an index is refused with IndexNotReady.",
        REFUSE,
        _no_index,
    ),
    Check(
        "damaged index",
        "An index that differs from its manifest is refused with IndexNotReady.",
        REFUSE,
        _damaged,
    ),
    Check(
        "read only",
        "Opening and searching leave the index folder as it was.",
        "Open the files of the index read-only, and keep caches in the folder cache",
        _read_only,
    ),
    Check(
        "fingerprint",
        "Other documents give another fingerprint.",
        RECORD,
        _documents,
        own_documents=True,
    ),
    Check(
        "document order",
        "The order in which documents are built changes no answer.",
        "Order equal scores by document id, and not by their place in the index",
        _in_any_order,
        own_documents=True,
    ),
    Check(
        "empty corpus",
        "An index of no documents can be built, and finds nothing.",
        "Divide by max(count, 1), and return Answer((), self.manifest.fingerprint)",
        _nothing,
        own_documents=True,
    ),
)
