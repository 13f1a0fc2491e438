"""Joined names of titles, as they are typed from memory: ``to frame`` for ``Index.to_frame``."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path

from engines.lexical.identifiers import identifiers
from engines.lexical.typed import Clause, Occur, words_in
from harness.core.errors import IndexNotReady
from harness.core.files import write_text
from harness.core.formats import MAX_INDEX_BYTES, json_file

FILE = "title_names.json"


def title_names(titles: Iterable[str]) -> frozenset[str]:
    """Give the words of every joined name, lower-cased, and of each of its ends of two or more."""
    found = set()
    for title in titles:
        for name in identifiers(title):
            words = [one[0] for one in words_in(name)]
            found |= {" ".join(words[at:]) for at in range(len(words) - 1)}
    return frozenset(found)


def write(folder: Path, titles: Iterable[str]) -> None:
    """Keep the names of ``titles`` in an index."""
    write_text(folder / FILE, json.dumps(sorted(title_names(titles))))


def read(folder: Path) -> frozenset[str]:
    """Read what ``write`` kept.

    Raises:
        IndexNotReady: the file is missing or broken.
    """
    path = folder / FILE
    try:
        return frozenset(json_file(path, most=MAX_INDEX_BYTES))
    except (OSError, ValueError, TypeError) as exc:
        raise IndexNotReady(f"{path}: {exc}. Build it again: harness index") from exc


def joined(wanted: Sequence[Clause], known: frozenset[str]) -> str:
    """Write several words that are a name of ``known`` as one name; empty for other words.

    A sign, an operator or a quotation mark says that words are meant.
    """
    if len(wanted) < 2 or any(c.quoted or c.occur is not Occur.SHOULD for c in wanted):  # noqa: PLR2004  one word is a name anyway
        return ""
    words = [word for clause in wanted for word in clause.words]
    return "_".join(words) if " ".join(words).lower() in known else ""
