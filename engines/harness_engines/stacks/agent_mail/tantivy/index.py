"""A folder with a Tantivy index of messages: its schema, its files, and whether it is whole."""

import struct
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from importlib.metadata import version
from itertools import chain, pairwise
from operator import le
from os import SEEK_END
from pathlib import Path
from typing import Any, NamedTuple

import tantivy

from harness.core.digest import of_json
from harness.core.files import replacing_folder, write_json
from harness.core.formats import json_file, json_of
from harness_engines.contract import EngineError, IndexUnavailable
from harness_engines.lexical.tantivy import analyzer
from harness_engines.lexical.terms import coded, folded, terms, words
from harness_engines.stacks.agent_mail import faults
from harness_engines.stacks.agent_mail.contract import Importance, Message, Weights, names

META = "meta.json"
SUFFIXES = ("fast", "fieldnorm", "idx", "pos", "store", "term")
"""Every segment has one of each."""
CHUNK_BYTES = 1 << 20
_TAIL = struct.Struct("<II")
_MAGIC = 1337


class Segment(NamedTuple):
    """A part of an index; ``documents`` counts deleted ones too."""

    name: str
    documents: int
    deletes: str | None
    """The file that says which are deleted."""


Checked = Mapping[str, faults.Stamp | None]
"""Files of an index by name, as they were when they were checked."""


def segments_of(index: Path) -> tuple[Segment, ...]:
    """List the parts of the last commit in the folder ``index``, in the order of a searcher."""
    made = []
    for one in json_file(index / META)["segments"]:
        name = one["segment_id"].replace("-", "")
        deletes = one["deletes"] and f"{name}.{one['deletes']['opstamp']}.del"
        made.append(Segment(name, one["max_doc"], deletes))
    return tuple(made)


def check(index: Path, segments: Iterable[Segment], known: Checked) -> Checked:
    """Check the files of segments in ``index``; ``known`` ones are not read again."""
    found: dict[str, faults.Stamp | None] = {}
    for segment in segments:
        every = [f"{segment.name}.{suffix}" for suffix in SUFFIXES]
        for name in filter(None, (*every, segment.deletes)):
            found[name] = faults.stamp(index / name)
            if found[name] is None or found[name] != known.get(name):
                _check_one(index / name)
    return found


def _check_one(path: Path) -> None:
    """Compare a file's bytes with the CRC-32 in its footer: JSON, its length, a magic number."""
    with path.open("rb") as file:
        size = file.seek(0, SEEK_END)
        file.seek(max(0, size - _TAIL.size))
        tail = file.read()
        length, magic = _TAIL.unpack(tail) if len(tail) == _TAIL.size else (size, 0)
        body = size - _TAIL.size - length
        if magic != _MAGIC or body < 0:
            raise ValueError(f"{path}: cut short")
        file.seek(body)
        wanted = json_of(file.read(length).decode("utf-8"))["crc"]
        file.seek(0)
        crc = 0
        while left := body - file.tell():
            crc = zlib.crc32(file.read(min(CHUNK_BYTES, left)), crc)
    if crc != wanted:
        raise ValueError(f"{path}: its bytes were altered")


def sweep(index: Path) -> None:
    """Remove lists of deleted documents that no commit names; the caller holds the writer.

    A writer that was killed before its commit leaves them, and Tantivy would give the next one the
    same name and refuse to write it.
    """
    named = {one.deletes for one in segments_of(index)}
    for path in index.glob("*.del"):
        if path.name not in named:
            path.unlink()


Ends = Mapping[str, tuple[int, ...]]
"""Ids of the first and the last message, by segment; empty for one whose ids do not ascend."""


def ends_of(searcher: tantivy.Searcher, segments: Sequence[Segment], known: Ends) -> Ends:
    """Return what is ``known`` of ``segments``, in the searcher's order, and read what is not."""
    found = dict(known)
    for at, (name, documents, _) in enumerate(segments):
        if name not in found:
            places = [tantivy.DocAddress(at, number) for number in range(documents)]
            ids: list[Any] = searcher.fast_field_values("message_id", places)
            found[name] = (ids[0], ids[-1]) if ids and all(map(le, ids, ids[1:])) else ()
    return {segment.name: found[segment.name] for segment in segments}


def ascend(ends: Ends) -> bool:
    """Return whether ids ascend within each segment and from one to the next, or are the same."""
    in_order = list(chain.from_iterable(ends.values()))
    return (
        bool(ends) and all(ends.values()) and all(one <= then for one, then in pairwise(in_order))
    )


SHORTEST, LONGEST = 2, 21
"""Characters of a beginning that is indexed; of a longer one, the first 21 are looked for."""


def grams(words: Iterable[str]) -> tuple[str, ...]:
    """List the beginnings of ``words``, each once, in the order met."""
    return tuple(
        dict.fromkeys([
            word[:length]
            for word in words
            for length in range(SHORTEST, min(len(word), LONGEST) + 1)
        ])
    )


def read_as(text: str) -> Sequence[str]:
    """List the words of a text as they read, in its form and in lower case."""
    if text.isascii():
        return analyzer("none").analyze(text)
    return [one.lower() for one in words(folded(text))]


def compiled(schema: tantivy.Schema, typed: Sequence[str]) -> tantivy.Query | None:
    """Ask for subjects in which a word begins with the last of ``typed`` and the others stand."""
    if not typed or len(typed[-1]) < SHORTEST:
        return None
    begun = tantivy.Query.term_query(schema, "subject_prefix", typed[-1][:LONGEST], "basic")
    before = [term for one in typed[:-1] for term in terms(one)]
    whole = [tantivy.Query.term_query(schema, "subject", term, "freq") for term in before]
    if not whole:
        return begun
    return tantivy.Query.boolean_query([(tantivy.Occur.Must, part) for part in (begun, *whole)])


ANALYZER = "am_normalize"
"""Split on all but letters and digits, lower-case, drop terms of 256 bytes and more."""
NUMBERS = ("message_id", "project_id", "created_ts", "ack_required")
TEXTS = ("subject", "body")
WHOLE = "text"
"""The message as BM25 sees it. Each time the subject is there is a value of its own, so no phrase
reaches from one into the next."""
NAMES = ("sender_name", "thread_id", "importance", "recipients")
"""Matched whole and as they are written."""
TERMS = ("identifiers", "subject_prefix")
"""Computed here, one term a value."""

_SAMPLE = Message(
    message_id=-7,
    project_id=3,
    subject="Re: br-2tnl, the Straße of read_csv/3.1 — 東京 e\u0301",
    body="See engines/lexical/terms.py, foo.bar::baz, a@b.c, 9428bc6, C# and " + 300 * "x",
    sender_name="RedFox",
    recipients=("BlueLake", "GreenHill"),
    thread_id="TKT-12",
    importance=Importance.HIGH,
    ack_required=True,
    created_ts=1_700_000_000_000_000,
)


def schema() -> tantivy.Schema:
    """Build the schema."""
    builder = tantivy.SchemaBuilder()
    for name in NUMBERS:
        builder.add_integer_field(name, stored=True, indexed=True, fast=True)
    for name in TEXTS:
        builder.add_text_field(name, stored=True, tokenizer_name=ANALYZER)
    for name in NAMES:
        builder.add_text_field(
            name,
            stored=True,
            fast=name == "thread_id",
            tokenizer_name="raw",
            index_option="basic",
        )
    builder.add_text_field(WHOLE, tokenizer_name=ANALYZER)
    builder.add_text_field("identifiers", tokenizer_name="raw", index_option="freq")
    builder.add_text_field("subject_prefix", tokenizer_name="raw", index_option="basic")
    return builder.build()


def fields(message: Message, weights: Weights) -> dict[str, Any]:
    """Return the value of every field of the schema for one message."""
    subject, body = coded(message.subject), coded(message.body)
    return {
        "message_id": message.message_id,
        "project_id": message.project_id,
        "created_ts": message.created_ts,
        "ack_required": int(message.ack_required),
        "subject": subject,
        "body": body,
        WHOLE: [subject] * weights.subject + [body],
        "sender_name": message.sender_name,
        "thread_id": message.thread_id,
        "importance": message.importance.value,
        "recipients": list(message.recipients),
        "identifiers": list(names(f"{message.subject}\n{message.body}")) * weights.identifiers,
        "subject_prefix": list(grams(read_as(message.subject))),
    }


def document(message: Message, of: tantivy.Schema, weights: Weights) -> tantivy.Document:
    """Make the document of ``message``, its values typed by the schema."""
    return tantivy.Document.from_dict(fields(message, weights), of)


def schema_hash(weights: Weights) -> str:
    """Digest of the fields, of what a sample message becomes in them, and of Tantivy's version."""
    sample = fields(_SAMPLE, weights)
    words = {name: analyzer("none").analyze(sample[name]) for name in TEXTS}
    kinds = {"numbers": NUMBERS, "texts": (*TEXTS, WHOLE), "names": NAMES, "terms": TERMS}
    return of_json([kinds, sample, words, version("tantivy")])


INDEX, HASH = "index", "schema_hash.json"
HEAP_BYTES, THREADS = 64_000_000, 1
"""Of a writer; Tantivy needs 15 MB a thread."""
TRIES = 3
"""A commit of another process may remove files that an opening is about to read."""


@dataclass(frozen=True, slots=True)
class OpenIndex:
    """An index at one commit."""

    stamp: faults.Stamp
    folder: tantivy.Index
    searcher: tantivy.Searcher
    files: Checked
    ends: Ends
    """In the searcher's order; none where another commit came while the index was opened."""
    in_order: bool
    """Whether messages lie by their ids, so that Tantivy gives equal ones in the right order."""


def stamp(root: Path) -> faults.Stamp:
    """Return which commit lies in ``root``; every query asks it."""
    found = faults.stamp(f"{root}/{INDEX}/{META}")
    if found is None:
        raise IndexUnavailable(f"{root}: no index here. Rebuild it")
    return found


def recorded_hash(root: Path) -> str | None:
    """Read the schema hash that the index in ``root`` was built with; None where there is none."""
    try:
        found = json_file(root / HASH)["sha256"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return found if isinstance(found, str) else None


def opened(root: Path, before: OpenIndex | None) -> OpenIndex:
    """Open the index in ``root``; what is known from ``before`` is not read again."""
    files: Checked = before.files if before else {}
    ends: Ends = before.ends if before else {}
    for last in (False,) * (TRIES - 1) + (True,):
        seen = stamp(root)
        try:
            with faults.known():
                segments = segments_of(root / INDEX)
                checked = check(root / INDEX, segments, files)
                index = _registered(tantivy.Index.open(str(root / INDEX)))
                index.config_reader("manual")
                searcher = index.searcher()
                now = ends_of(searcher, segments, ends) if stamp(root) == seen else {}
                return OpenIndex(seen, index, searcher, checked, now, ascend(now))
        except EngineError as exc:
            if last or stamp(root) == seen:
                raise IndexUnavailable(f"{root}: broken ({exc}). Rebuild it") from exc
    raise AssertionError("the last try returns or raises")


def _registered(index: tantivy.Index) -> tantivy.Index:
    index.register_tokenizer(ANALYZER, analyzer("none"))
    return index


@contextmanager
def held(index: tantivy.Index) -> Iterator[tantivy.IndexWriter]:
    """Return the one writer of ``index`` and write nothing of one's own accord."""
    try:
        writer = index.writer(HEAP_BYTES, THREADS)
    except ValueError as exc:
        if "LockBusy" in str(exc):
            raise IndexUnavailable("another writer holds the index; try again later") from exc
        raise
    try:
        yield writer
    finally:
        writer.wait_merging_threads()


@contextmanager
def writing(index: tantivy.Index) -> Iterator[tantivy.IndexWriter]:
    """Return the one writer of ``index``; commit what it wrote, or roll back on an error."""
    with held(index) as writer:
        try:
            yield writer
            writer.commit()
        except BaseException:
            writer.rollback()
            raise


def built(root: Path, messages: Iterable[Message], weights: Weights) -> int:
    """Index ``messages`` beside ``root`` and put it there; an error leaves the old index."""
    with faults.known(), ExitStack() as until_replaced:
        with suppress(EngineError), faults.known():  # others are kept out of what will be replaced
            until_replaced.enter_context(held(tantivy.Index.open(str(root / INDEX))))
        beside = until_replaced.enter_context(replacing_folder(root))
        (beside / INDEX).mkdir()
        new = _registered(tantivy.Index(schema(), path=str(beside / INDEX)))
        count = 0
        with writing(new) as writer:
            for message in messages:
                writer.add_document(document(message, new.schema, weights))
                count += 1
        new.reload()
        indexed = new.searcher().num_docs
        if indexed != count:
            raise EngineError(f"{indexed} of {count} messages were indexed")
        write_json(beside / HASH, {"sha256": schema_hash(weights)})
    return count
