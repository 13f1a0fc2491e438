"""Mail as it lies on disk: one mbox file, every mail a document, nothing dropped in silence."""

from collections.abc import Iterator
from dataclasses import dataclass
from email import message_from_bytes
from email.message import Message
from email.utils import getaddresses
from pathlib import Path
from typing import IO, NamedTuple

from harness.core.errors import BadFile
from harness.core.markup import clean, header, mails, moment, texts
from harness.core.reading import MAX_LINE_BYTES, Malformed, naming, opened
from harness.core.records import Document

MAX_MAIL_BYTES = 64 << 20


class MailOddity(NamedTuple):
    """Warning about a malformed mail, which is imported."""

    number: int
    doc_id: str
    problem: str


@dataclass(frozen=True, slots=True)
class Mbox:
    """All mails in the order of the file."""

    documents: tuple[Document, ...]
    notes: tuple[MailOddity, ...]


def read(path: Path) -> Mbox:
    """Read an mbox file.

    ``doc_id`` is the Message-ID without its brackets, so that judgements can name a mail; a mail
    without one is ``mbox-<number>``, and a Message-ID that comes again gets ``#<number>``. The text
    is its texts without attachments: of alternatives the plain one, unless that is blank.
    Metadata: ``sender``, ``recipients`` (to, cc and bcc, comma-joined), ``message_id``,
    ``created_ts`` (microseconds since 1970 UTC, None where the date cannot be read) and
    ``thread_id``: mails are one thread if References or In-Reply-To join them.
    """
    with naming(path), opened(path) as file:
        found = [_read(at, *mail) for at, mail in enumerate(_mails(file), start=1)]
    if not found:
        hint = "A mail begins with a line 'From '; give an mbox file."
        raise BadFile(path, "it holds no mail", hint)
    return _together(found)


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
    notes: list[MailOddity] = []
    seen: set[str] = set()
    for mail in mails:
        own = mail.message_id or f"mbox-{mail.number}"
        doc_id = own
        while doc_id in seen:
            doc_id = f"{doc_id}#{mail.number}"
        seen.add(doc_id)
        problems = [*mail.problems]
        if not mail.message_id:
            problems.append("it has no Message-ID")
        if doc_id != own:
            problems.append(f"the Message-ID {own} comes again")
        notes += [MailOddity(mail.number, doc_id, problem) for problem in problems]
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


def _mails(file: IO[bytes]) -> Iterator[tuple[bytes, bool]]:
    """Yield the bytes of each mail, and whether it was cut."""
    lines: list[bytes] | None = None
    size = 0
    for line, begins in mails(iter(lambda: file.readline(MAX_LINE_BYTES), b"")):
        if lines is None and len(line) == MAX_LINE_BYTES:
            raise Malformed(f"a line before its first mail has {MAX_LINE_BYTES} bytes or more")
        if begins:
            if lines is not None:
                yield b"".join(lines), size > MAX_MAIL_BYTES
            lines, size = [], 0
        elif lines is not None:
            size += len(line)
            if size <= MAX_MAIL_BYTES:
                lines.append(line)
    if lines is not None:
        yield b"".join(lines), size > MAX_MAIL_BYTES


def _read(number: int, raw: bytes, cut: bool) -> _Mail:  # noqa: FBT001  of a pair
    """Read a mail, whatever it is: what no parser reads is taken over as it stands."""
    problems: list[str] = []
    if cut:
        problems.append(f"it has more than {MAX_MAIL_BYTES} bytes, and its end was left out")
    try:
        return _parsed(number, message_from_bytes(raw.replace(b"\r\n", b"\n")), problems)
    except Exception as exc:  # noqa: BLE001  a mail may break the parser in any way
        problems.append(f"it cannot be read ({type(exc).__name__})")
    text = clean(raw.partition(b"\n\n")[2].decode("utf-8", "replace")).strip()
    return _Mail(number, "", (), "", text, "", "", None, tuple(problems))


def _parsed(number: int, mail: Message, problems: list[str]) -> _Mail:
    ids = header(mail, "Message-ID", problems)
    refers = f"{header(mail, 'References', problems)} {header(mail, 'In-Reply-To', problems)}"
    people = [header(mail, name, problems) for name in ("To", "Cc", "Bcc")]
    senders = [one for _, one in getaddresses([header(mail, "From", problems)])]
    subject = " ".join(header(mail, "Subject", problems).split())
    text = "\n\n".join(texts(mail, problems)).strip()
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
        sender=senders[0] if senders else "",
        recipients=",".join(dict.fromkeys(one for _, one in getaddresses(people) if one)),
        created_ts=moment(header(mail, "Date", problems), problems),
        problems=tuple(dict.fromkeys(problems)),
    )


def problems_of(mbox: Mbox) -> Iterator[str]:
    """Yield one sentence for each kind of problem, with the first mail that has it."""
    kinds: dict[str, list[MailOddity]] = {}
    for note in mbox.notes:
        kinds.setdefault(note.problem.partition(" (")[0], []).append(note)
    for kind, notes in kinds.items():
        first = notes[0]
        yield f"{len(notes)} of the mails: {kind} (mail {first.number}: {first.doc_id})."
