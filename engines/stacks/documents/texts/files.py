"""Documents read from files: plain text, Markdown, PDF, HTML, Word and e-mail.

A text file is decoded as UTF-8 and left as it is, line ends and byte order mark included, so that
places count the characters of the file itself. The others have no characters to count: their places
count those of the text that is read out of them, which is kept in the index.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from engines.stacks.documents.formats import mail, page, pdf, word
from engines.stacks.documents.texts.sources import Page, Source, mended
from harness.core.errors import BadFile
from harness.core.reading import Malformed, whole

TEXT_SUFFIXES = frozenset({".txt", ".md", ".markdown", ".rst"})
PDF_SUFFIX = ".pdf"
SUFFIXES = TEXT_SUFFIXES | page.SUFFIXES | {PDF_SUFFIX, word.SUFFIX, mail.MAIL, mail.BOX}


class Ingested(NamedTuple):
    """What a folder held."""

    sources: tuple[Source, ...]
    """In the order of their ids."""
    refused: tuple[BadFile, ...]
    """Files of a known kind that could not be read, each with its remedy."""


def folder(root: Path) -> Ingested:
    """Read every file of a known kind below ``root``; links are not followed.

    A document's id is its path below ``root``. One file that cannot be read does not stop the rest.

    Raises:
        BadFile: ``root`` is not a folder.
    """
    if not root.is_dir():
        raise BadFile(root, "is not a folder", "Give the folder that holds the documents")
    sources: list[Source] = []
    refused: list[BadFile] = []
    for path in _files(root):
        try:
            sources.append(read(path, path.relative_to(root).as_posix()))
        except BadFile as exc:
            refused.append(exc)
    return Ingested(tuple(sources), tuple(refused))


def read(path: Path, document_id: str) -> Source:
    """Read one file.

    Raises:
        BadFile: it cannot be opened, is not what its name says, damaged, encrypted with a password,
            or without text.
    """
    try:
        data = whole(path)
    except OSError as exc:
        raise BadFile(path, f"cannot be opened ({exc})", "Look at its permissions") from exc
    except Malformed as exc:
        raise BadFile(path, str(exc), "Leave it out, or split it") from exc
    return source(path, document_id, data)


def source(path: Path, document_id: str, data: bytes) -> Source:
    """Make a document of the bytes of a file.

    Raises:
        BadFile: as ``read``.
    """
    return Source(document_id, path.name, str(path.resolve()), _pages(path, data))


def _pages(path: Path, data: bytes) -> tuple[Page, ...]:
    kind = path.suffix.lower()
    if kind == PDF_SUFFIX:
        return pdf.pages(path, data)
    if kind == mail.BOX:
        return tuple(Page(one.number, mended(one.text)) for one in mail.box(path, data))
    read_by = {word.SUFFIX: word.text, mail.MAIL: mail.mail}
    read_by |= dict.fromkeys(page.SUFFIXES, page.text)
    return (Page(None, mended(read_by.get(kind, _text)(path, data))),)


def _files(root: Path) -> Iterator[Path]:
    found = [path for path in root.rglob("*") if path.suffix.lower() in SUFFIXES]
    files = (path for path in found if path.is_file() and not path.is_symlink())
    return iter(sorted(files, key=lambda path: path.relative_to(root).as_posix()))


def _text(path: Path, data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as exc:
        line = exc.object[: exc.start].count(b"\n") + 1
        hint = "Save it as UTF-8; its places would not be those of the file otherwise"
        raise BadFile(path, f"is not UTF-8 ({exc.reason})", hint, line) from exc
