"""Mail as it lies on disk: one mbox file, every mail a document, nothing dropped in silence."""

from __future__ import annotations

import mailbox
from collections.abc import Iterator
from dataclasses import dataclass
from email.errors import HeaderParseError
from email.header import Header, decode_header, make_header
from email.message import Message
from email.utils import getaddresses, parsedate_to_datetime
from html.parser import HTMLParser
from pathlib import Path
from typing import NamedTuple

from harness.core.errors import BadFile
from harness.core.records import Document


class Note(NamedTuple):
    """What is odd about a mail; it was taken over all the same."""

    number: int
    """Of the mail in the file, from 1."""
    doc_id: str
    problem: str


@dataclass(frozen=True, slots=True)
class Mbox:
    """All mails in the order of the file."""

    documents: tuple[Document, ...]
    notes: tuple[Note, ...]


def read(path: Path) -> Mbox:
    """Read an mbox file.

    ``doc_id`` is the Message-ID without its brackets, so that judgements can name a mail; a mail
    without one is ``mbox-<number>``, and a Message-ID that comes again gets ``#<number>``. The text
    is what is text/plain (or the words of text/html where there is none), without attachments.
    Metadata: ``sender``, ``recipients`` (to, cc and bcc, comma-joined), ``message_id``,
    ``created_ts`` (microseconds since 1970 UTC, None where the date cannot be read) and
    ``thread_id``: mails are one thread if References or In-Reply-To join them.

    Raises:
        BadFile: there is no such file, or no mail in it.
    """
    if not path.is_file():
        raise BadFile(path, "there is no such file", "Give the path of an mbox file.")
    box = mailbox.mbox(path, create=False)
    try:
        mails = [_read(number, mail) for number, mail in enumerate(box, start=1)]
    finally:
        box.close()
    if not mails:
        cure = "A mail begins with a line 'From '; give an mbox file."
        raise BadFile(path, "it holds no mail", cure)
    return _together(mails)


class _Mail(NamedTuple):
    number: int
    message_id: str
    refers_to: tuple[str, ...]
    subject: str
    text: str
    sender: str
    recipients: str
    created_ts: int | None
    problems: tuple[str, ...]


def _together(mails: list[_Mail]) -> Mbox:
    threads = _Threads()
    for mail in mails:
        threads.join(mail.message_id or f"mbox-{mail.number}", *mail.refers_to)
    documents: list[Document] = []
    notes: list[Note] = []
    seen: set[str] = set()
    for mail in mails:
        own = mail.message_id or f"mbox-{mail.number}"
        doc_id = f"{own}#{mail.number}" if own in seen else own
        seen.add(doc_id)
        problems = [*mail.problems]
        if not mail.message_id:
            problems.append("it has no Message-ID")
        if doc_id != own:
            problems.append(f"the Message-ID {own} comes again")
        notes += [Note(mail.number, doc_id, problem) for problem in problems]
        metadata = {
            "created_ts": mail.created_ts,
            "message_id": mail.message_id,
            "recipients": mail.recipients,
            "sender": mail.sender,
            "thread_id": threads.of(own),
        }
        documents.append(Document(doc_id, mail.subject, mail.text, metadata))
    return Mbox(tuple(documents), tuple(notes))


class _Threads:
    """Message-IDs that belong together, named by the one that was seen first."""

    def __init__(self) -> None:
        self._above: dict[str, str] = {}
        self._order: dict[str, int] = {}

    def join(self, own: str, *others: str) -> None:
        for name in (*others, own):
            self._above.setdefault(name, name)
            self._order.setdefault(name, len(self._order))
        for name in others:
            low, high = sorted((self.of(own), self.of(name)), key=self._order.__getitem__)
            self._above[high] = low

    def of(self, name: str) -> str:
        while self._above[name] != name:
            self._above[name] = self._above[self._above[name]]
            name = self._above[name]
        return name


def _read(number: int, mail: Message) -> _Mail:
    problems: list[str] = []
    ids = _header(mail, "Message-ID", problems)
    refers = f"{_header(mail, 'References', problems)} {_header(mail, 'In-Reply-To', problems)}"
    people = [_header(mail, name, problems) for name in ("To", "Cc", "Bcc")]
    senders = getaddresses([_header(mail, "From", problems)])
    subject = " ".join(_header(mail, "Subject", problems).split())
    text = "\n\n".join(_texts(mail, problems)).strip()
    if not senders:
        problems.append("it has no sender")
    if not text:
        problems.append("it has no text")
    problems += [f"it is malformed ({type(d).__name__})" for p in mail.walk() for d in p.defects]
    return _Mail(
        number=number,
        message_id="".join(ids.split()).strip("<>"),
        refers_to=tuple(dict.fromkeys(word.strip("<>,") for word in refers.split() if "@" in word)),
        subject=subject,
        text=text,
        sender=senders[0][1] if senders else "",
        recipients=",".join(dict.fromkeys(a for _, a in getaddresses(people) if a)),
        created_ts=_time(_header(mail, "Date", problems), problems),
        problems=tuple(dict.fromkeys(problems)),
    )


def _header(mail: Message, name: str, problems: list[str]) -> str:
    """Join and decode all headers of a name."""
    found: list[str] = []
    for raw in mail.get_all(name, []):
        if isinstance(raw, Header):
            problems.append(f"its {name} holds bytes of no charset")
        try:
            found.append(str(make_header(decode_header(raw))))
        except (HeaderParseError, LookupError, ValueError) as exc:
            problems.append(f"its {name} cannot be decoded ({exc})")
            found.append(str(raw))
    return _clean(" ".join(found))


def _texts(mail: Message, problems: list[str]) -> list[str]:
    parts = [
        part
        for part in mail.walk()
        if not part.is_multipart() and part.get_content_disposition() != "attachment"
    ]
    plain = [part for part in parts if part.get_content_type() == "text/plain"]
    if plain:
        return [_decoded(part, problems) for part in plain]
    pages = [part for part in parts if part.get_content_type() == "text/html"]
    if pages:
        problems.append("it has no text/plain, so the words of its text/html were taken")
    return [_words(_decoded(part, problems)) for part in pages]


def _decoded(part: Message, problems: list[str]) -> str:
    raw = part.get_payload(decode=True)
    data = raw if isinstance(raw, bytes) else b""
    charset = part.get_content_charset("us-ascii")
    try:
        return _clean(data.decode("utf-8" if charset == "us-ascii" else charset))
    except (LookupError, ValueError):
        problems.append(f"its text is not {charset}, as it says")
        return _clean(data.decode("utf-8", "replace"))


def _time(text: str, problems: list[str]) -> int | None:
    try:
        when = parsedate_to_datetime(text)
        return int(when.timestamp()) * 1_000_000
    except (ValueError, TypeError, OverflowError):
        problems.append(f"its date {text!r} cannot be read" if text else "it has no date")
        return None


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.words: list[str] = []
        self._silent = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        del attrs
        self._silent += tag in {"script", "style"}

    def handle_endtag(self, tag: str) -> None:
        self._silent -= tag in {"script", "style"} and self._silent > 0

    def handle_data(self, data: str) -> None:
        if not self._silent:
            self.words += data.split()


def _words(page: str) -> str:
    parser = _Page()
    parser.feed(page)
    parser.close()
    return " ".join(parser.words)


def _clean(text: str) -> str:
    """Replace halves of surrogate pairs, and write line ends one way."""
    whole = text.encode("utf-8", "replace").decode("utf-8")
    return whole.replace("\r\n", "\n").replace("\r", "\n")


def problems_of(found: Mbox) -> Iterator[str]:
    """Yield one sentence for each kind of problem, with the first mail that has it."""
    kinds: dict[str, list[Note]] = {}
    for note in found.notes:
        kinds.setdefault(note.problem.partition(" (")[0], []).append(note)
    for kind, notes in kinds.items():
        first = notes[0]
        yield f"{len(notes)} of the mails: {kind} (mail {first.number}: {first.doc_id})."
