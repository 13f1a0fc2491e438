"""Notes in chunks, references to them that any machine understands, and the text that is ranked."""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import quote

from harness.core.errors import DatasetError

_ABSOLUTE = re.compile(r"[/\\~]|[A-Za-z]:[/\\]|file:", re.IGNORECASE)
_PARAGRAPH = re.compile(r"\n\s*\n")
_SPACE = re.compile(r"\s")


def source_ref(doc_id: str, chunk: int) -> str:
    """Name a chunk: ``doc:ID#chunk:N``, the id percent-encoded where it must be.

    Raises:
        DatasetError: the id is an absolute path, which means nothing on another machine.
    """
    if _ABSOLUTE.match(doc_id):
        raise DatasetError(
            f"document {doc_id!r}: its id is an absolute path;"
            " name it by its path inside of the project"
        )
    return f"doc:{quote(doc_id, safe='/')}#chunk:{chunk}"


def chunks(text: str, most: int) -> Iterator[str]:
    """Cut a text between paragraphs into chunks of at most ``most`` characters.

    A longer paragraph is cut between words, and a longer word within. 0 stands for one chunk. A
    text without a word is one empty chunk, so that its title can be found.
    """
    if not most or len(text) <= most:
        yield text.strip()
        return
    held = ""
    for paragraph in _PARAGRAPH.split(text):
        rest = paragraph.strip()
        if held and len(held) + 2 + len(rest) <= most:
            held = f"{held}\n\n{rest}"
            continue
        if held:
            yield held
        while len(rest) > most:
            piece = trimmed(rest, most)
            yield piece
            rest = rest[len(piece) :].lstrip()
        held = rest
    if held:
        yield held


def trimmed(text: str, most: int) -> str:
    """Keep at most ``most`` characters, up to the end of a word where there is one."""
    if len(text) <= most:
        return text.rstrip()
    if _SPACE.match(text[most]):
        return text[:most].rstrip()
    cut = text[:most]
    ends = [space.start() for space in _SPACE.finditer(cut)]
    return cut[: ends[-1]].rstrip() if ends and cut[: ends[-1]].strip() else cut


def shown(title: str, passage: str, most: int) -> str:
    """Make the snippet of a chunk: what a person reads and what the model ranks, one text."""
    return trimmed(f"{title}\n{passage}".strip(), most)
