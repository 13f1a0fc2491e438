"""Documents of any data set as code, prose or records."""

from __future__ import annotations

import codecs
import csv
import io
import json
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engines.kept.headings import headings
from engines.lexical.terms import mended
from engines.stacks.code.reading import languages, python, syntax
from engines.stacks.code.reading.python import decoded
from engines.stacks.code.reading.python import documents as of_module
from engines.stacks.code.units import Facts, Mode, Texts, Unit
from harness.core.errors import install
from harness.core.reading import Malformed, whole
from harness.core.records import Document, Scalar

PYTHON = frozenset({"py", "pyi"})
PROSE_ENDINGS, RECORDS = frozenset({"md", "rst", "txt"}), frozenset({"toml", "json", "csv"})
OTHERS = frozenset(syntax.LANGUAGES)
"""Endings of languages that the extra ``languages`` reads."""
READ = PYTHON | PROSE_ENDINGS | RECORDS | OTHERS
BIGGEST = 2 << 20
"""Bytes; a bigger file is data, not something that people wrote."""
DEEPEST = 3
"""Headings below this level are within a section."""


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
    """
    ext = extension(path)
    if ext in OTHERS:
        yield from _of_language(path, data, syntax.GRAMMARS[syntax.LANGUAGES[ext]])
        return
    if ext in PYTHON:
        yield from of_module(path, module, decoded(data))
        return
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as exc:
        raise Malformed(f"is not UTF-8 ({exc.reason})") from exc
    if ext in PROSE_ENDINGS:
        yield from _of_page(path, text)
    else:
        about: dict[str, Scalar] = {"path": path, "mode": Mode.RECORDS.value}
        yield Document(path, path.rpartition("/")[2].rpartition(".")[0], text, about)


def _of_language(path: str, data: bytes, grammar: syntax.Grammar) -> Iterator[Document]:
    if not grammar.installed:
        raise Malformed(
            f"is {grammar.language}, which tree-sitter reads. Run: {install(syntax.EXTRA)}"
        )
    yield from languages.documents(path, data.removeprefix(codecs.BOM_UTF8), grammar)


def is_code(path: str) -> bool:
    """Return whether a file is cut into definitions, beside which it may hold other lines."""
    return extension(path) in PYTHON | OTHERS


def extension(path: str) -> str:
    """Return what follows the last dot, in lower case."""
    return path.rpartition(".")[2].lower() if "." in path else ""


def module_of(path: str) -> str:
    """Name the module of a file by its path."""
    return path.rpartition(".")[0].removesuffix("/__init__").replace("/", ".")


def _of_page(path: str, text: str) -> Iterator[Document]:
    """Cut a page at its headings; what stands above the first is a section without a title."""
    found = [one for one in headings(f".{extension(path)}", text) if 1 <= one.level <= DEEPEST]
    cuts = [0, *(one.start for one in found), len(text)]
    titles = ["", *(one.title for one in found)]
    for at, title in enumerate(titles):
        part = text[cuts[at] : cuts[at + 1]].strip()
        if part:
            low = text.count("\n", 0, cuts[at]) + 1
            about: dict[str, Scalar] = {
                "path": path, "kind": "section", "mode": Mode.PROSE.value,
                "lines": f"{low}-{low + text.count(chr(10), cuts[at], cuts[at + 1])}",
            }  # fmt: skip
            yield Document(f"{path}#{at}", title, part, about)


DEEPEST = 30
_DEFINITION = re.compile(
    r"^[ \t]*(?:async[ \t]+)?(def|class)[ \t]+(\w+)[ \t]*(\([^()]*\))?", re.MULTILINE
)
_CALL = re.compile(r"(?<![\w.])([A-Za-z_][\w.]*)\(")
_IMPORT = re.compile(r"^[ \t]*(?:from|import)[ \t]+([\w.]+)", re.MULTILINE)
_COMMENT = re.compile(r"^[ \t]*(?:#|//)[ \t]*(\S.*)$", re.MULTILINE)
_STRING = re.compile(r'"""(.*?)"""', re.DOTALL)
_PARAM = re.compile(r"(?:\(|,)\s*\**(\w+)")
KEYWORDS = frozenset({"def", "class", "if", "while", "for", "return", "print", "in", "and", "or"})
LANGUAGES: Mapping[str, str] = {
    "py": "python", "pyi": "python", "md": "markdown", "rst": "rst", "txt": "text",
    "toml": "toml", "json": "json", "csv": "csv", **syntax.LANGUAGES,
}  # fmt: skip
PROSE_LANGUAGES = frozenset({"markdown", "rst", "text", "english"})
"""Languages that no one would take for code."""


def understand(document: Document) -> Unit:
    """Read a document by its metadata where they say what it is, and by its text where not.

    ``mode``, ``language``, ``path``, ``kind``, ``name``, ``lines``, ``imports``
    (``np=numpy,os=os``), ``own`` (names that the file defines) and ``package`` (which relative
    imports start from) are taken from the metadata.
    Without ``mode``: what parses as Python and defines, imports or sets something is code, and so
    is what begins with the signature of its own title. A JSON object is a record; the rest is
    prose. A language that has a grammar of tree-sitter is read by it. Other code, and Python that
    does not parse, is read by its signs.
    """
    about = _About.of(document)
    mode, (texts, facts) = _read(document, about)
    texts = Texts(*map(mended, texts))
    if document.title and document.title != texts.name:
        texts = texts._replace(name=f"{document.title} {texts.name}".strip())
    lang = about.lang or ("python" if mode is Mode.CODE else "")
    lines = _word(document.metadata, "lines")
    return Unit(document.doc_id, mode, lang, about.path, texts, facts, lines)


@dataclass(frozen=True, slots=True)
class _About:
    """What the metadata say; empty where they do not."""

    path: str
    ext: str
    lang: str
    mode: str
    kind: str
    name: str
    imports: Mapping[str, str]
    own: Mapping[str, str]
    package: str

    @classmethod
    def of(cls, document: Document) -> _About:
        said = document.metadata
        path = _word(said, "path") or document.doc_id
        file = path.rpartition("/")[2]
        ext = file.rpartition(".")[2].lower() if "." in file else ""
        lang = (_word(said, "language") or LANGUAGES.get(ext, "")).lower()
        imports, own = _pairs(said, "imports"), _pairs(said, "own")
        mode = _word(said, "mode")
        if mode not in {"", Mode.CODE, Mode.PROSE, Mode.RECORDS}:
            mode = ""
        kind, name, package = (_word(said, key) for key in ("kind", "name", "package"))
        return cls(path, ext, lang, mode, kind, name, imports, own, package)


def _read(document: Document, about: _About) -> tuple[Mode, python.Read]:
    title, text, kind = document.title, document.text, about.kind
    if about.mode in {"", Mode.RECORDS}:
        known = about.ext in READERS
        if known or is_record(text):
            record = read_record(title, text, about.ext if known else "json", kind)
            if record is not None:
                return Mode.RECORDS, record
    if about.mode in {"", Mode.CODE}:
        code = _code(text, about)
        if code is not None:
            return Mode.CODE, code
        signature = python.signature_of(title, text)
        if signature:
            return Mode.CODE, python.read_symbol(title, text, kind, signature)
    prose = python.read_prose(title, text, kind)
    return Mode(about.mode) if about.mode else Mode.PROSE, prose


def _code(text: str, about: _About) -> python.Read | None:
    """Read code; None where it is none, as far as anybody can tell."""
    sure = bool(about.mode) or bool(about.lang and about.lang not in PROSE_LANGUAGES)
    grammar = syntax.of_language(about.lang)
    if grammar is not None:
        names = {"imports": about.imports, "own": about.own}
        return languages.read(text, grammar, name=about.name, kind=about.kind, **names)
    tree = python.parsed(text) if about.lang in {"", "python"} else None
    if tree is not None and tree.body and (sure or python.is_code(tree)):
        try:
            return python.read(
                text,
                tree,
                name=about.name,
                kind=about.kind,
                imports=about.imports,
                own=about.own,
                package=about.package,
            )
        except (RecursionError, ValueError):  # too deep, or a number of thousands of digits
            return read_snippet(text, name=about.name, kind=about.kind)
    if tree is None and (sure or looks_like_code(text)):
        return read_snippet(text, name=about.name, kind=about.kind)
    return None


def embedded(document: Document) -> str:
    """Return the text whose vector stands for a document."""
    return f"{document.title} {document.text}".strip()


def _pairs(about: Mapping[str, Scalar], key: str) -> Mapping[str, str]:
    pairs = (one.partition("=") for one in _word(about, key).split(",") if one)
    return {bound: name for bound, _, name in pairs}


def _word(about: Mapping[str, Scalar], key: str) -> str:
    found = about.get(key)
    return "" if found is None else str(found)


def looks_like_code(text: str) -> bool:
    """Return whether a text that is not Python of today defines something all the same."""
    return bool(_DEFINITION.search(text))


def read_snippet(text: str, *, name: str, kind: str) -> tuple[Texts, Facts]:
    """Find the first definition, its parameters, what is called, imported and commented.

    No types, no risks: a rule that reads signs would guess. ``name`` and ``kind`` as in
    ``python_source.read``.
    """
    first = _DEFINITION.search(text)
    symbol = name.rpartition(".")[2] or (first[2] if first else "")
    params = _PARAM.findall(first[3]) if first and first[3] and first[1] == "def" else []
    calls = set(_CALL.findall(text)) - KEYWORDS - {symbol}
    signature = f"{symbol}{first[3] or ''}" if first else ""
    method = params[:1] in (["self"], ["cls"])
    found = {"def": "method" if method else "function", "class": "class"}
    doc = _STRING.search(text)
    facts = Facts(
        type=kind or (found[first[1]] if first else "module"),
        symbol=symbol,
        full=name or symbol,
        exported=bool(symbol) and not symbol.startswith("_"),
        signature=signature,
        params=tuple(dict.fromkeys(params)),
        uses=tuple(sorted(calls)),
        calls=tuple(sorted(calls)),
        imports=tuple(sorted(set(_IMPORT.findall(text)))),
    )
    comments = "\n".join(_COMMENT.findall(text))
    body = _STRING.sub(" ", _COMMENT.sub(" ", text))
    texts = Texts(
        name or symbol, signature, " ".join(doc[1].split()) if doc else "", comments, body
    )
    return texts, facts


def read_record(title: str, text: str, ext: str, kind: str) -> tuple[Texts, Facts] | None:
    """Read a record: keys are its comment field, values its body; None where it does not parse.

    ``ext`` is ``toml``, ``json`` or ``csv``; other endings are not of these formats.
    """
    load = READERS.get(ext)
    if load is None:
        return None
    try:
        entries = list(_flat(load(text), 0))
    except (ValueError, RecursionError, csv.Error):
        return None
    keys = tuple(dict.fromkeys(key for key, _ in entries if key))
    body = "\n".join(value for _, value in entries if value)
    facts = Facts(type=kind or "record", params=keys)
    return Texts(name=title, comment="\n".join(keys), body=body), facts


def is_record(text: str) -> bool:
    """Return whether a text without a name that says so is a record: a JSON object or list."""
    return text.lstrip()[:1] in {"{", "["} and read_record("", text, "json", "") is not None


def _json(text: str) -> Any:  # noqa: ANN401  whatever stands there
    return json.loads(text)


def _rows(text: str) -> Any:  # noqa: ANN401  as above
    return list(csv.DictReader(io.StringIO(text)))


READERS: Mapping[str, Callable[[str], Any]] = {
    "toml": tomllib.loads,
    "json": _json,
    "csv": _rows,
}


def _flat(value: Any, depth: int) -> Iterator[tuple[str, str]]:  # noqa: ANN401  as above
    """Yield (key, value) of everything inside; deeper than ``DEEPEST`` is not read."""
    if depth > DEEPEST:
        return
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield mended(str(key)), ""
            yield from _flat(inner, depth + 1)
    elif isinstance(value, list):
        for inner in value:
            yield from _flat(inner, depth + 1)
    elif value is not None:
        yield "", str(value)
