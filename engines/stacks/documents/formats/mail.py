"""The text of an e-mail: who wrote to whom, when, about what, and what.

Attachments are not read. What is odd about a mail does not stop it, as in ``harness import mbox``.
"""

from __future__ import annotations

from collections.abc import Iterator
from email import message_from_bytes
from pathlib import Path

from engines.stacks.documents.texts.sources import Page
from harness.core.errors import BadFile
from harness.core.markup.mail_parts import clean, header, texts

MAIL, BOX = ".eml", ".mbox"
HEADERS = ("Subject", "From", "To", "Cc", "Date")
_BEGIN = b"From "


def mail(path: Path, data: bytes) -> str:
    """Give the text of one mail.

    Raises:
        BadFile: it has neither a header nor a text.
    """
    found = _text(data)
    if not found:
        raise BadFile(path, "holds no mail", "Save the mail with its headers")
    return found


def box(path: Path, data: bytes) -> tuple[Page, ...]:
    """Give the mails of an mbox file, numbered from 1.

    Raises:
        BadFile: no mail begins in it.
    """
    if not data.startswith(_BEGIN):
        raise BadFile(path, "holds no mail", "A mail begins with a line 'From '")
    return tuple(Page(at, _text(one)) for at, one in enumerate(_mails(data), start=1))


def _mails(data: bytes) -> Iterator[bytes]:
    """Yield what stands between lines that begin with ``From ``."""
    start = data.find(b"\n") + 1 or len(data)
    while (end := data.find(b"\n" + _BEGIN, start - 1)) >= 0:
        yield data[start:end]
        start = data.find(b"\n", end + 1) + 1 or len(data)
    yield data[start:]


def _text(data: bytes) -> str:
    odd: list[str] = []
    try:
        parsed = message_from_bytes(data.replace(b"\r\n", b"\n"))
        said = ((name, " ".join(header(parsed, name, odd).split())) for name in HEADERS)
        head = "\n".join(f"{name}: {value}" for name, value in said if value)
        body = "\n\n".join(texts(parsed, odd)).strip()
    except Exception:  # noqa: BLE001  a mail may break the parser in any way
        return clean(data.decode("utf-8", "replace")).strip()
    return "\n\n".join(filter(None, (head, body)))
