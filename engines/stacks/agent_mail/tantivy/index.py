"""A folder with a Tantivy index of messages: opened only when it is whole, replaced as one.

The folder holds ``index/`` and, alongside it, ``schema_hash.json`` (ADR-003, D5), so one rename
replaces both.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import tantivy

from engines.contract.errors import EngineError, IndexUnavailable
from engines.lexical.analysis import analyzer
from engines.stacks.agent_mail.contract.lifecycle import Message
from engines.stacks.agent_mail.tantivy import files as tantivy_files
from engines.stacks.agent_mail.tantivy import layout as tantivy_layout
from engines.stacks.agent_mail.tantivy.files import META, Mapped, Seen, Segment
from engines.stacks.agent_mail.tantivy.schema import (
    ANALYZER,
    Weights,
    document,
    schema,
    schema_hash,
)
from harness.core.files import replacing_folder, write_json
from harness.core.formats import json_file

INDEX, HASH = "index", "schema_hash.json"
TRIES = 3
"""A commit of another process may remove files that an opening is about to read."""


class Stamp(NamedTuple):
    """Tells one commit from the next."""

    inode: int
    changed_ns: int
    size: int


class Opened(NamedTuple):
    """An index at one commit."""

    stamp: Stamp
    folder: tantivy.Index
    searcher: tantivy.Searcher
    files: frozenset[Seen]
    mapped: Mapped
    segments: tuple[Segment, ...]
    """In the searcher's order; none where another commit came while the index was opened."""
    in_order: bool
    """Whether messages are known to lie by their ids; see ``tantivy_layout``."""


class Written(NamedTuple):
    """How an index is written; neither changes an answer."""

    threads: int = 1
    heap_bytes: int = 64_000_000
    """Tantivy needs 15 MB a thread."""


@contextmanager
def guarded(doing: str) -> Iterator[None]:
    """Make whatever goes wrong an EngineError, also a panic of Tantivy, which is not an Exception.

    Raises:
        EngineError: it went wrong; an IndexUnavailable passes as it is.
    """
    try:
        yield
    except (IndexUnavailable, EngineError):
        raise
    except BaseException as exc:
        if not isinstance(exc, Exception) and type(exc).__name__ != "PanicException":
            raise
        raise EngineError(f"{doing}: {type(exc).__name__}: {exc}") from exc


def stamp(root: Path) -> Stamp:
    """Say which commit lies in ``root``; every query asks it.

    Raises:
        IndexUnavailable: none does.
    """
    try:
        status = os.stat(f"{root}/{INDEX}/{META}")  # noqa: PTH116  a path takes thrice as long
    except OSError as exc:
        raise IndexUnavailable(f"{root}: no index here ({exc}). Rebuild it") from exc
    return Stamp(status.st_ino, status.st_mtime_ns, status.st_size)


def recorded_hash(root: Path) -> str | None:
    """Read the schema hash that the index in ``root`` was built with; None where there is none."""
    try:
        found = json_file(root / HASH)["sha256"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return found if isinstance(found, str) else None


def opened(root: Path, known: frozenset[Seen]) -> Opened:
    """Open the index in ``root``; files ``known`` to be whole are not read again.

    Raises:
        IndexUnavailable: it is missing or broken.
    """
    for last in (False,) * (TRIES - 1) + (True,):
        before = stamp(root)
        try:
            with guarded("opening"):
                files = tantivy_files.check(root / INDEX, known)
                mapped = Mapped(root / INDEX, files)
                index = tantivy.Index.open(str(root / INDEX))
                index.config_reader("manual")
                index.register_tokenizer(ANALYZER, analyzer("none"))
                searcher, segments = index.searcher(), tantivy_files.segments(root / INDEX)
                if stamp(root) != before:
                    segments = ()
                in_order = tantivy_layout.ascend(segments, tantivy_layout.noted(root / INDEX))
                return Opened(before, index, searcher, files, mapped, segments, in_order)
        except EngineError as exc:
            if last or stamp(root) == before:
                raise IndexUnavailable(f"{root}: broken ({exc}). Rebuild it") from exc
    raise AssertionError("the last try returns or raises")


def noted(root: Path, now: Opened) -> Opened:
    """Write down in which order messages lie, as who has just written them does."""
    known = tantivy_layout.read(now.searcher, now.segments, tantivy_layout.noted(root / INDEX))
    with suppress(OSError):
        write_json(root / INDEX / tantivy_layout.ORDER, known)
    return now._replace(in_order=tantivy_layout.ascend(now.segments, known))


@contextmanager
def held(index: tantivy.Index, how: Written) -> Iterator[tantivy.IndexWriter]:
    """Give the one writer of ``index`` and write nothing of one's own accord.

    Raises:
        IndexUnavailable: another writer holds the index.
    """
    try:
        writer = index.writer(how.heap_bytes, how.threads)
    except ValueError as exc:
        if "LockBusy" in str(exc):
            raise IndexUnavailable("another writer holds the index; try again later") from exc
        raise
    try:
        yield writer
    finally:
        writer.wait_merging_threads()


@contextmanager
def writing(index: tantivy.Index, how: Written) -> Iterator[tantivy.IndexWriter]:
    """Give the one writer of ``index``; commit what it wrote, or roll back on an error.

    Raises:
        IndexUnavailable: another writer holds the index.
    """
    with held(index, how) as writer:
        try:
            yield writer
            writer.commit()
        except BaseException:
            writer.rollback()
            raise


def built(root: Path, messages: Iterable[Message], how: Written, weights: Weights) -> int:
    """Index ``messages`` beside ``root`` and put it there; an error leaves the old index.

    Raises:
        IndexUnavailable: another writer holds the old index.
        EngineError: anything else, such as fewer messages indexed than were given.
    """
    with guarded("rebuilding"), _others_kept_out(root, how), replacing_folder(root) as beside:
        (beside / INDEX).mkdir()
        new = tantivy.Index(schema(), path=str(beside / INDEX))
        new.register_tokenizer(ANALYZER, analyzer("none"))
        count = 0
        with writing(new, how) as writer:
            for message in messages:
                writer.add_document(document(message, new.schema, weights))
                count += 1
        new.reload()
        searcher = new.searcher()
        if searcher.num_docs != count:
            raise EngineError(f"{searcher.num_docs} of {count} messages were indexed")
        known = tantivy_layout.read(searcher, tantivy_files.segments(beside / INDEX), {})
        write_json(beside / INDEX / tantivy_layout.ORDER, known)
        write_json(beside / HASH, {"sha256": schema_hash(weights)})
    return count


@contextmanager
def _others_kept_out(root: Path, how: Written) -> Iterator[None]:
    """Hold the writer of the index that will be replaced, where there is one that opens.

    It must not commit: by then its path is the new index's.
    """
    with ExitStack() as until_replaced:
        with suppress(EngineError), guarded("opening"):
            until_replaced.enter_context(held(tantivy.Index.open(str(root / INDEX)), how))
        yield
