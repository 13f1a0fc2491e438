"""Installed packages as documents: every symbol, what modules and pages say, and settings."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from engines.stacks.code.reading.languages import grammars, units
from engines.stacks.code.reading.module import decoded
from engines.stacks.code.reading.module import documents as of_module
from engines.stacks.code.unit import Mode
from harness.core.extras import install
from harness.core.reading import Malformed, whole
from harness.core.records import Document, Scalar

PYTHON = frozenset({"py", "pyi"})
PROSE, RECORDS = frozenset({"md", "rst", "txt"}), frozenset({"toml", "json", "csv"})
OTHERS = frozenset(grammars.LANGUAGES)
"""Endings of languages that the extra ``languages`` reads."""
READ = PYTHON | PROSE | RECORDS | OTHERS
BIGGEST = 2 << 20
"""Bytes; a bigger file is data, not something that people wrote."""
_HEADING = re.compile(r"^#{1,3} +(\S.*?) *#*$", re.MULTILINE)


def documents(root: Path) -> Iterator[Document]:
    """Read every file below ``root``, in byte order of paths; nothing is imported or run.

    Paths begin with the folder's own name. Files that are too big are left out.
    """
    for path in sorted(root.rglob("*"), key=lambda path: path.as_posix().encode()):
        if extension(path.name) not in READ or not path.is_file():
            continue
        if path.stat().st_size <= BIGGEST:
            shown = f"{root.name}/{path.relative_to(root).as_posix()}"
            with suppress(Malformed):
                yield from of_file(shown, module_of(shown), whole(path, most=BIGGEST))


def of_file(path: str, module: str, data: bytes) -> Iterator[Document]:
    """Make the documents of one file.

    A function, method or class is a document, a class without its methods. So is a constant, what
    a module does beside, its docstring, a section of Markdown, and a file of TOML, JSON or CSV.

    Raises:
        Malformed: it is prose or a record and not UTF-8, or of a language without its grammar.
    """
    ext = extension(path)
    if ext in OTHERS:
        yield from _of_language(path, data, grammars.GRAMMARS[grammars.LANGUAGES[ext]])
        return
    if ext in PYTHON:
        yield from of_module(path, module, decoded(data))
        return
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as exc:
        raise Malformed(f"is not UTF-8 ({exc.reason})") from exc
    if ext in PROSE:
        yield from _of_page(path, text)
    else:
        about: dict[str, Scalar] = {"path": path, "mode": Mode.RECORDS.value}
        yield Document(path, path.rpartition("/")[2].rpartition(".")[0], text, about)


def _of_language(path: str, data: bytes, grammar: grammars.Grammar) -> Iterator[Document]:
    if not grammar.installed:
        raise Malformed(
            f"is {grammar.language}, which tree-sitter reads. Run: {install(grammars.EXTRA)}"
        )
    yield from units.documents(path, data.removeprefix(codecs.BOM_UTF8), grammar)


def extension(path: str) -> str:
    """Give what follows the last dot, in lower case."""
    return path.rpartition(".")[2].lower() if "." in path else ""


def module_of(path: str) -> str:
    """Name the module of a file by its path."""
    return path.rpartition(".")[0].removesuffix("/__init__").replace("/", ".")


def _of_page(path: str, text: str) -> Iterator[Document]:
    """Cut a page at its headings; what stands above the first is a section without a title."""
    headings = list(_HEADING.finditer(text))
    cuts = [0, *(heading.start() for heading in headings), len(text)]
    titles = ["", *(heading[1] for heading in headings)]
    for at, title in enumerate(titles):
        part = text[cuts[at] : cuts[at + 1]].strip()
        if part:
            low = text.count("\n", 0, cuts[at]) + 1
            about: dict[str, Scalar] = {
                "path": path, "kind": "section", "mode": Mode.PROSE.value,
                "lines": f"{low}-{low + text.count(chr(10), cuts[at], cuts[at + 1])}",
            }  # fmt: skip
            yield Document(f"{path}#{at}", title, part, about)
